"""Starts Flower's SuperLink with two ports. Run as a program.

Flower answers everything on one port: nodes, but also whoever wants to start a run or register a key, without asking
who that is. So that port stays on this machine, for the programs of the user who runs ``potluck serve``; participants
connect to a second one, where only what nodes need is answered, and no request may be larger than a limit.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from pathlib import Path
from typing import Any, ClassVar

import uvicorn
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers

from potluck.flower import hello
from potluck.flower.answer_limit import AnswerLimit
from potluck.flower.long_polling import LongPolling
from potluck.flower.progress import ProgressLog
from potluck.flower.reception import Reception
from potluck.flower.same_user import SameUserProtocol
from potluck.flower.tls_watch import TLS_BEGINS, WatchedTls

NODE_PATH = "/v1/fleet/"
"""How the paths begin that nodes ask for."""
HEAD_TIMEOUT = 20.0
"""Seconds until the head of a request must have come."""
BODY_TIMEOUT = 600.0
"""Seconds until the rest of it must have come."""
MAX_HEAD_BYTES = 2**16
"""How many bytes the head of a request may have."""
MOST_CONNECTIONS = 500
"""How many connections there may be at a time."""


class PortFilter:
    """Lets only nodes through the public port, once the participants' keys are registered.

    Args:
        app: Flower's server, which answers what is let through.
        public_port: the port that is filtered.
        max_request_bytes: how many bytes a request may have there.
        ready: a file that exists once the keys are registered.
        reception: tells sites how they stand, and turns away those whose keys were revoked; by default nobody does.
    """

    def __init__(
        self, app: Any, public_port: int, max_request_bytes: int, ready: Path, reception: Reception | None = None
    ) -> None:
        self._app, self._port, self._max_bytes, self._ready = app, public_port, max_request_bytes, ready
        self._reception = reception

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        length = _length(scope) if scope["type"] == "http" else None
        if scope["type"] == "lifespan" or scope["server"][1] != self._port:
            await self._app(scope, receive, send)
        elif scope["type"] != "http":  # as websockets, which no node needs
            print(f"Refused a {scope['type']} from {scope['client']}.", flush=True)
            await send({"type": "websocket.close", "code": 1008})
        elif self._reception is not None and scope["path"] == hello.PATH and scope["method"] == "POST":
            await _tell(self._reception, scope, receive, send, length)
        elif not is_for_nodes(scope):
            print(f"Refused {scope['path'][:200]!a} from {scope['client']}: only nodes may ask here.", flush=True)
            await _refuse(send, 403, b"Only nodes may ask here.")
        elif not self._ready.exists():
            await _refuse(send, 503, b"Not ready yet.")  # which nodes take as: try again
        elif length is None or length > self._max_bytes:
            print(f"Refused {length} bytes from {scope['client']}: the limit is {self._max_bytes}.", flush=True)
            await _refuse(send, 413, b"Too large.")
        elif self._reception is not None and self._reception.turns_away(scope["headers"], scope["client"][0]):
            await _refuse(send, 401, b"This key was revoked.")
        else:
            await self._app(scope, receive, send)


def is_for_nodes(scope: dict[str, Any]) -> bool:
    """Whether a path is one that nodes ask for, as it stands: nothing is left in it for somebody else to resolve."""
    path, raw = scope["path"], scope.get("raw_path") or scope["path"].encode()
    plain = bool(re.fullmatch(rb"[A-Za-z0-9/_.-]+", raw.partition(b"?")[0])) and path.encode() == raw.partition(b"?")[0]
    return plain and path.startswith(NODE_PATH) and not {"", ".", ".."} & set(path[1:].split("/"))


class GuardedProtocol(SameUserProtocol):
    """Closes a connection whose request does not come in time, or whose head does not end, and those that are too many.

    At the port that is for this machine other users are turned away.
    """

    public_port: ClassVar[int | None] = None
    """The port that is for everybody: it has a limit of its own, so that nobody there keeps this machine out."""

    reception: ClassVar[Reception | None] = None
    """Says who speaks TLS to a server that does not."""

    _timer: asyncio.TimerHandle | None = None
    _head_bytes: int | None = 0
    """How much of a head has come; None while no head is due."""

    def serves_all(self, transport: Any) -> bool:
        return bool(transport.get_extra_info("sockname")[1] == self.public_port)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.serves_all(transport) and self._others() > MOST_CONNECTIONS:
            transport.close()
        else:
            self._wait(HEAD_TIMEOUT)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_bytes == 0 and data.startswith(TLS_BEGINS) and self.reception is not None:
            self.reception.say("tls", "a site spoke TLS, and this server does not: add [tls] to its file")
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > MAX_HEAD_BYTES:
            self.transport.abort()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._wait(BODY_TIMEOUT)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.cycle.response_complete:  # else the next head is waited for already
            self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._head_bytes = 0
        self._wait(HEAD_TIMEOUT)

    def _others(self) -> int:
        """How many connections there are to the public port."""
        return sum(each.server is not None and each.server[1] == self.public_port for each in self.connections)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _length(scope: dict[str, Any]) -> int | None:
    """How long the body says it is; the web server holds it to that."""
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else None


async def _tell(reception: Reception, scope: dict[str, Any], receive: Any, send: Any, length: int | None) -> None:
    """Tells a site how it stands."""
    if length is None or length > hello.MAX_BYTES:
        await _refuse(send, 413, b"Too large.")
        return
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    try:
        answer = reception.answer(body, scope["client"][0])
    except ValueError:
        await _refuse(send, 400, b"No question of a site's.")
        return
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


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
    polled = LongPolling(app, Path(os.environ["POTLUCK_BELLS"]), lambda: server.should_exit)
    polled.watch(fleet_handlers, runtime_handlers)
    progress = ProgressLog(Path(os.environ["POTLUCK_PROGRESS"]))
    reception = Reception(Path(os.environ["POTLUCK_DOOR"]), progress.report)
    filtered = PortFilter(polled, public_port, max_bytes, ready, reception)
    known = {name: value for name, value in settings.items() if name not in ("reload", "workers")}
    GuardedProtocol.public_port = public_port
    GuardedProtocol.reception = reception
    WatchedTls.heard = lambda line: reception.say("tls", line)
    settings = {**known, "http": GuardedProtocol, "ws": "none"}
    config = uvicorn.Config(filtered, host=host, port=port, **settings)
    config.load()
    if config.ssl is not None:
        config.ssl.sslobject_class = WatchedTls
    server = uvicorn.Server(config)
    server.run(sockets=[_listen(host, port), _listen(public_host, public_port)])


if __name__ == "__main__":
    from flwr.superlink.cli import flower_superlink

    AnswerLimit(int(os.environ["POTLUCK_MAX_ANSWER_BYTES"])).hold(fleet_handlers, runtime_handlers)
    uvicorn.run = run  # type: ignore[assignment]  # which is how the SuperLink starts to listen
    flower_superlink()
