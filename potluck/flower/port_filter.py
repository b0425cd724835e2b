"""Starts Flower's SuperLink with two ports. Run as a program: nothing here imports potluck.

Flower answers everything on one port: nodes, but also whoever wants to start a run or register a key, without asking
who that is. So that port stays on this machine, for ``potluck serve``; participants connect to a second one,
where only what nodes need is answered, and no request may be larger than a limit.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import uvicorn

NODE_PATH = "/v1/fleet/"
"""How the paths begin that nodes ask for."""


class PortFilter:
    """Lets only nodes through the public port, once the participants' keys are registered.

    Args:
        app: Flower's server, which answers what is let through.
        public_port: the port that is filtered.
        max_request_bytes: how many bytes a request may have there.
        ready: a file that exists once the keys are registered.
    """

    def __init__(self, app: Any, public_port: int, max_request_bytes: int, ready: Path) -> None:
        self._app, self._port, self._max_bytes, self._ready = app, public_port, max_request_bytes, ready

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        length = _length(scope) if scope["type"] == "http" else None
        if scope["type"] != "http" or scope["server"][1] != self._port:
            await self._app(scope, receive, send)
        elif not scope["path"].startswith(NODE_PATH):
            print(f"Refused {scope['path']} from {scope['client']}: only nodes may ask here.", flush=True)
            await _refuse(send, 403, b"Only nodes may ask here.")
        elif not self._ready.exists():
            await _refuse(send, 503, b"Not ready yet.")  # which nodes take as: try again
        elif length is None or length > self._max_bytes:
            print(f"Refused {length} bytes from {scope['client']}: the limit is {self._max_bytes}.", flush=True)
            await _refuse(send, 413, b"Too large.")
        else:
            await self._app(scope, receive, send)


def _length(scope: dict[str, Any]) -> int | None:
    """How long the body says it is; the web server holds it to that."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else None


async def _refuse(send: Any, status: int, text: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((host, port))
    return listening


def run(app: Any, host: str, port: int, **settings: Any) -> None:
    """In the place of ``uvicorn.run``: the same server, listening at both ports."""
    public_host, public_port = os.environ["POTLUCK_PUBLIC_HOST"], int(os.environ["POTLUCK_PUBLIC_PORT"])
    max_bytes, ready = int(os.environ["POTLUCK_MAX_REQUEST_BYTES"]), Path(os.environ["POTLUCK_READY"])
    filtered = PortFilter(app, public_port, max_bytes, ready)
    known = {name: value for name, value in settings.items() if name not in ("reload", "workers")}
    server = uvicorn.Server(uvicorn.Config(filtered, host=host, port=port, **known))
    server.run(sockets=[_listen(host, port), _listen(public_host, public_port)])


if __name__ == "__main__":
    from flwr.superlink.cli import flower_superlink

    uvicorn.run = run  # type: ignore[assignment]  # which is how the SuperLink starts to listen
    flower_superlink()
