"""How the federations of a server stand, over HTTP: for `potluck status`, for health checks and for Prometheus.

It has an address of its own, by default none, and no business with the public port. It answers questions alone: nothing
can be changed here. Whoever can reach it reads the names of participants and how they do.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from potluck.core.errors import PotluckError, SettingsError, how_to_install
from potluck.flower.status import Status, read_status

TIMEOUT = 10.0
"""Seconds that an answer of the monitor, or a request to it, may take."""
MOST_BYTES = 2**24
"""How many bytes an answer of a monitor may have."""
SILENT_AFTER = 60.0
"""Seconds after which a run that says nothing is not healthy."""
STATUSES: TypeAdapter[list[Status]] = TypeAdapter(list[Status])


def address_of(text: str) -> tuple[str, int]:
    """The host and the port in HOST:PORT; a port alone is of this machine."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) < 2**16:
        raise SettingsError(f"The monitor's address is {text!r}; expected HOST:PORT, such as 127.0.0.1:9464.")
    return host.strip("[]") or "127.0.0.1", int(port)


def fetch_status(address: str) -> list[Status]:
    """How the federations of the server stand whose monitor answers at an address."""
    host, port = address_of(address)
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}/status"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            return STATUSES.validate_json(response.read(MOST_BYTES))
    except (OSError, ValidationError) as error:
        raise SettingsError(
            f"No monitor answers at {address}: {error}. It is where `potluck serve --monitor HOST:PORT` says."
        ) from error


class Monitor:
    """Answers at an address while it is entered: ``/status`` and ``/health`` as JSON, ``/metrics`` for Prometheus.

    Args:
        address: HOST:PORT.
        files: gives the status files of the federations that are served.
    """

    def __init__(self, address: str, files: Callable[[], list[Path]]) -> None:
        if find_spec("prometheus_client") is None:
            raise SettingsError(f"A monitor needs prometheus-client: {how_to_install('monitoring')}")
        self._files = files
        host, port = address_of(address)
        monitor = self

        class Handler(BaseHTTPRequestHandler):
            timeout = TIMEOUT
            server_version, sys_version = "potluck", ""

            def do_GET(self) -> None:
                status, kind, body = monitor.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing is logged: scrapes come every few seconds."""

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            raise SettingsError(f"The monitor cannot listen at {address}: {error.strerror}.") from error
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Monitor:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def statuses(self) -> list[Status]:
        """How each federation stands that has said so."""
        found = []
        for path in self._files():
            try:
                found.append(read_status(path))
            except PotluckError:  # it has not begun yet
                continue
        return found

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """The HTTP status, the kind and the body of what is asked for."""
        if path == "/status":
            return 200, "application/json", STATUSES.dump_json(self.statuses())
        if path == "/health":
            healthy, states = self._health()
            return 200 if healthy else 503, "application/json", json.dumps(states).encode()
        if path == "/metrics":
            from potluck.flower.prometheus import CONTENT_TYPE, exposition

            return 200, CONTENT_TYPE, exposition(self.statuses())
        return 404, "text/plain", b"/status, /health or /metrics\n"

    def _health(self) -> tuple[bool, dict[str, str]]:
        """Whether each federation that is not over says something, and has not failed."""
        states: dict[str, str] = {}
        for each in self.statuses():
            silent = each.state in ("waiting", "playing", "paused") and time.time() - each.updated > SILENT_AFTER
            states[each.study] = "silent" if silent else each.state
        return not {"silent", "failed"} & set(states.values()), states
