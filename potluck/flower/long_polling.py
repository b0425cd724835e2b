"""Has nodes wait at Flower's server for their next message, and tells the run which answers are whole.

Flower's nodes ask for messages every few seconds, and its run asks for answers. Within the SuperLink it is known at
once when there is something: a request that found nothing is held until then, and answered as empty, so that the node
asks again. No message is handed out to a request that was held: whoever waits may be gone without the server knowing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.proto.fleet_pb2 import PullMessagesRequest

from potluck.flower.bell import ring

PULL_PATH = "/v1/fleet/pull-messages"
"""Where nodes ask for messages."""
HOLD = 20.0
"""Seconds that a request is held at most; Flower's nodes give up after 30."""
STOP_INTERVAL = 0.5
"""Seconds between two looks at whether the server is about to stop."""
MAX_REQUEST_BYTES = 2**12
"""How many bytes a request for messages may have, to be held."""
MOST_PUSHES = 1000
"""How many messages that are on their way in pieces are remembered."""


class LongPolling:
    """Flower's server, with requests for messages held.

    Args:
        app: Flower's server.
        bells: a folder with the sockets of runs, which are told of answers; None for no runs.
        stopping: says whether the server is about to stop; by default it never is.
        hold: how many seconds a request is held at most; by default ``HOLD``.
    """

    def __init__(
        self,
        app: Any,
        bells: Path | None = None,
        stopping: Callable[[], bool] = lambda: False,
        hold: float = HOLD,
    ) -> None:
        self._app, self._bells, self._stopping, self._hold = app, bells, stopping, hold
        self._waiting: dict[int, set[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pushed: OrderedDict[str, tuple[set[str], Callable[[], None]]] = OrderedDict()
        """Of each message that comes in pieces: which are missing, and what is to be done when none is."""

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        node = None
        if scope["type"] == "http" and scope["path"] == PULL_PATH:
            self._loop = asyncio.get_running_loop()
            receive, body = await _read(receive)
            node = _node_of(body)
        if node is None:
            await self._app(scope, receive, send)
        else:
            await self._ask(scope, receive, send, node)

    async def _ask(self, scope: dict[str, Any], receive: Any, send: Any, node: int) -> None:
        """Has Flower answer, and keeps the answer back while it is empty."""
        woken = asyncio.Event()
        self._waiting.setdefault(node, set()).add(woken)  # before Flower looks, so that nothing is missed
        answered: list[dict[str, Any]] = []

        async def keep(event: dict[str, Any]) -> None:
            answered.append(event)

        try:
            await self._app(scope, receive, keep)
            if answered[0].get("status") == 200 and not any(event.get("body") for event in answered):
                await self._wait(woken)
        finally:
            self._waiting[node].discard(woken)
            if not self._waiting[node]:
                del self._waiting[node]
        for event in answered:
            await send(event)

    async def _wait(self, woken: asyncio.Event) -> None:
        until = asyncio.get_running_loop().time() + self._hold
        while not self._stopping() and (left := until - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.wait_for(woken.wait(), min(left, STOP_INTERVAL))
                return
            except TimeoutError:
                continue

    def wake(self, nodes: Iterable[int]) -> None:
        """There is a message for these nodes. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake, list(nodes))

    def _wake(self, nodes: list[int]) -> None:
        for node in nodes:
            for woken in self._waiting.get(node, ()):
                woken.set()

    def watch(self, of_nodes: Any, of_runs: Any) -> None:
        """Has Flower's handlers tell what is pushed: by nodes, and by runs."""

        def answered(request: Any) -> Callable[[], None]:
            number = request.messages_list[0].metadata.reply_to_message_id
            return lambda: ring(self._bells, number) if self._bells is not None else None

        def asked(request: Any) -> Callable[[], None]:
            nodes = [message.metadata.dst_node_id for message in request.messages_list]
            return lambda: self.wake(nodes)

        self._watch(of_nodes, answered)
        self._watch(of_runs, asked)

    def _watch(self, handlers: Any, then: Callable[[Any], Callable[[], None]]) -> None:
        push_messages, push_object = handlers.push_messages, handlers.push_object

        def messages(request: Any, *more: Any, **named: Any) -> Any:
            response = push_messages(request, *more, **named)
            missing, done = set(response.objects_to_push), then(request)
            if missing:
                self._pushed[response.session_id] = missing, done
                if len(self._pushed) > MOST_PUSHES:
                    self._pushed.popitem(last=False)
            else:
                done()
            return response

        def piece(request: Any, *more: Any, **named: Any) -> Any:
            response = push_object(request, *more, **named)
            missing, done = self._pushed.get(request.session_id, (set(), None))
            missing.discard(request.object_id)
            if done is not None and not missing:
                self._pushed.pop(request.session_id, None)
                done()
            return response

        handlers.push_messages, handlers.push_object = messages, piece


async def _read(receive: Any) -> tuple[Any, bytes | None]:
    """The body of a request, and what gives it again; of one that is too large None."""
    events: list[dict[str, Any]] = []
    size = 0
    while not events or events[-1].get("more_body", False):
        events.append(await receive())
        size += len(events[-1].get("body", b""))
        if size > MAX_REQUEST_BYTES:
            break
    left = iter(events)

    async def again() -> Any:
        event = next(left, None)
        return await receive() if event is None else event

    return again, None if size > MAX_REQUEST_BYTES else b"".join(event.get("body", b"") for event in events)


def _node_of(body: bytes | None) -> int | None:
    """Which node asks; None where it cannot be read."""
    try:
        return None if body is None else int(PullMessagesRequest.FromString(body).node.node_id)
    except Exception:  # protobuf's own: it is Flower's to say what is wrong
        return None
