"""A web server on this machine that keeps files, and misbehaves as it is told."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from potluck.data.sets.download import RemoteFile


class Server:
    """What it keeps, how it behaves, and what it was asked.

    Args:
        url: its address.
        files: name → content.
    """

    def __init__(self, url: str, files: dict[str, bytes]) -> None:
        self.url, self.files = url, files
        self.asked: list[str | None] = []
        """The range of each request; None for all of a file."""
        self.break_after: list[int] = []
        """For each of the next requests, after how many bytes the connection ends."""
        self.answers: list[int] = []
        """For the next requests, other answers than 200."""
        self.ranges = True
        """Whether it sends a part where one is asked for."""

    def file(self, name: str, **changed: Any) -> RemoteFile:
        """One of its files, with its checksum and size."""
        content = self.files[name]
        known: dict[str, Any] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)} | changed
        return RemoteFile(f"{self.url}/{name}", name, **known)


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Server]:
    """A server of these files, for as long as it is needed."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            part = self.headers["Range"]
            server.asked.append(part)
            content = server.files.get(self.path.lstrip("/"))
            if content is None or server.answers:
                self.send_error(server.answers.pop(0) if server.answers else 404)
                return
            start = int(part.removeprefix("bytes=").rstrip("-")) if part and server.ranges else 0
            if start and start >= len(content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + server.break_after.pop(0) if server.break_after else len(content)
            self.wfile.write(content[start:end])

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server = Server(f"http://127.0.0.1:{http.server_port}", files)
        Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        http.shutdown()
