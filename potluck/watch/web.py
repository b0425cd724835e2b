"""Shows how a run or a comparison stands in a browser: one page, fed by server-sent events; nothing can be changed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from potluck.core.errors import DataError, SettingsError
from potluck.report.html import STYLE
from potluck.watch.terminal import View

HEARTBEAT = 15.0
"""Seconds after which something is sent, so that nobody takes the connection for dead."""
LISTENERS = 100
"""So many may look at once."""

LOOKS = """
#status { font-weight: 600; } #folder { color: var(--soft); overflow-wrap: anywhere; }
progress { accent-color: var(--series-0); width: min(100%, 20rem); height: 1rem; vertical-align: middle; }
figure svg polyline { fill: none; stroke: var(--series-0); stroke-width: 2.5; }
figure svg circle { fill: var(--series-0); }
""".strip()
SCRIPT = files("potluck.watch").joinpath("page.js").read_text(encoding="utf-8")
STYLES = f"{STYLE}\n{LOOKS}"
PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Potluck: a run</title>
<link rel="icon" href="data:,">
<style>{STYLES}</style>
</head>
<body>
<main>
<h1 id="title">Looking …</h1>
<p id="status" role="status"></p>
<p id="folder"></p>
<div id="view"></div>
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def hash_of(text: str) -> str:
    """The name of a script or style in a page's policy."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src {hash_of(SCRIPT)}; style-src {hash_of(STYLES)}; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""No other page may embed this one, and nothing but its own script runs; its address, with the token, goes nowhere."""


class Board:
    """What is shown: read by one task for all who look, and only while somebody does.

    Args:
        look: reads how things stand.
        every: seconds between two looks.
    """

    def __init__(self, look: Callable[[], View], every: float) -> None:
        self._look, self._every = look, every
        self._changed = asyncio.Condition()
        self.listeners = 0
        self.version, self.text = 0, ""
        self._seen: dict[str, Any] = {}

    def _read(self) -> dict[str, Any]:
        try:
            return self._look().to_json()
        except DataError as error:
            return {"kind": "error", "why": str(error)}

    async def keep_reading(self) -> None:
        """Reads until it is cancelled."""
        while True:
            if self.listeners:
                found = await asyncio.to_thread(self._read)
                if _lasting(found) != _lasting(self._seen):
                    self._seen, self.text = found, json.dumps(found, allow_nan=False)
                    self.version += 1
                    async with self._changed:
                        self._changed.notify_all()
            await asyncio.sleep(self._every if self.listeners else min(self._every, 0.1))

    async def events(self) -> AsyncIterator[str]:
        """What is sent to one who looks."""
        known = 0
        self.listeners += 1
        try:
            while True:
                try:
                    async with self._changed:
                        while self.version == known:
                            await asyncio.wait_for(self._changed.wait(), HEARTBEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                known = self.version
                yield f"data: {self.text}\n\n"
        finally:
            self.listeners -= 1


def _lasting(view: dict[str, Any]) -> dict[str, Any]:
    """What tells one view from the next: of a run that is over, not the time of day."""
    return view if view.get("state") == "playing" else {name: each for name, each in view.items() if name != "now"}


def application(look: Callable[[], View], every: float, token: str | None, hosts: frozenset[str] | None) -> Starlette:
    """The pages.

    Args:
        look: reads how things stand.
        every: seconds between two looks.
        token: what the address must hold; None for nothing.
        hosts: by which names this machine may be called, so that no other site's name leads here; None for any.
    """
    board = Board(look, every)

    def refused(request: Request) -> Response | None:
        name = request.url.hostname or ""
        if hosts is not None and name not in hosts:
            return PlainTextResponse(f"{name!r} is no name of this machine's here.\n", 421, HEADERS)
        given = request.query_params.get("token", "")
        if token is not None and not hmac.compare_digest(given.encode(), token.encode()):
            return PlainTextResponse("A token is needed: the address that `potluck watch` printed.\n", 403, HEADERS)
        return None

    async def page(request: Request) -> Response:
        return refused(request) or HTMLResponse(PAGE, headers=HEADERS)

    async def events(request: Request) -> Response:
        if (no := refused(request)) is not None:
            return no
        if board.listeners >= LISTENERS:
            return PlainTextResponse("Too many look already.\n", 503, HEADERS)
        return StreamingResponse(board.events(), media_type="text/event-stream", headers=HEADERS)

    @asynccontextmanager
    async def reading(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(board.keep_reading())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return Starlette(routes=[Route("/", page), Route("/events", events)], lifespan=reading)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """A socket at an address."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise SettingsError(f"Nobody can listen at {host}, port {port}: {error.strerror}. Choose another.") from error
    return listening


def server_of(pages: Starlette) -> Any:
    """What answers requests, quietly; those who look are not waited for at the end."""
    import uvicorn

    return uvicorn.Server(
        uvicorn.Config(
            pages,
            log_level="warning",
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )


def serve(
    look: Callable[[], View], announce: Callable[[str], None], host: str, port: int, token: str | None, every: float
) -> None:
    """Serves the page until Ctrl-C.

    Args:
        look: reads how things stand.
        announce: is told the address.
        host: the address to listen at; where others reach it, a token is needed, and drawn if none is given.
        port: the port; 0 for any that is free.
        token: what the page's address must hold; by default nothing on loopback.
        every: seconds between two looks.
    """
    local = is_loopback(host)
    if token is None and not local:
        token = secrets.token_urlsafe(16)
    listening = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    announce(f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else ""))
    hosts = frozenset({"localhost", "127.0.0.1", "::1", host}) if local else None
    with listening:
        server_of(application(look, every, token, hosts)).run(sockets=[listening])
