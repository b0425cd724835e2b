"""Answers on this machine as the Hugging Face hub does to those who ask for a data set: just enough of its protocol."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "a" * 40
_REPOSITORY = r"([^/]+/[^/]+)"


@contextmanager
def hub_of(root: Path) -> Iterator[str]:
    """The address of a hub whose repositories are the folders ``root/owner/name``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            if found := re.fullmatch(rf"/api/datasets/{_REPOSITORY}(?:/revision/[^/]+)?", path):
                files = [{"rfilename": name} for name in self.files(found[1])]
                self.tell({"id": found[1], "sha": COMMIT, "siblings": files, "private": False, "tags": []})
            elif found := re.fullmatch(rf"/api/datasets/{_REPOSITORY}/tree/[^/]+/?(.*)", path):
                inside = {n: content for n, content in self.files(found[1]).items() if n.startswith(found[2])}
                folders = {name.rpartition("/")[0] for name in inside} - {"", found[2]}
                listed = [{"type": "file", "path": n, "size": len(c), "oid": "x"} for n, c in inside.items()]
                self.tell([*listed, *({"type": "directory", "path": name, "size": 0, "oid": "y"} for name in folders)])
            elif found := re.fullmatch(rf"/datasets/{_REPOSITORY}/resolve/[^/]+/(.*)", path):
                content = self.files(found[1]).get(found[2])
                tag = hashlib.sha1(content or b"").hexdigest()
                self.send(content, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT, "X-Error-Code": "EntryNotFound"})
            else:
                self.send(None, {})

        def do_HEAD(self) -> None:
            self.do_GET()

        def files(self, repository: str) -> dict[str, bytes]:
            folder = root / repository
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}

        def tell(self, said: Any) -> None:
            self.send(json.dumps(said).encode(), {"Content-Type": "application/json"})

        def send(self, content: bytes | None, headers: dict[str, str]) -> None:
            self.send_response(200 if content is not None else 404)
            for name, value in headers.items():
                if content is None or name != "X-Error-Code":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
