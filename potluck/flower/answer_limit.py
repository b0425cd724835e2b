"""Refuses what is too large for an answer while a node sends it. Used within Flower's SuperLink.

Flower keeps whatever its nodes send, in pieces, until the run fetches it. Here a node may send so many bytes for each
message that it has fetched, and no more: what is beyond them is refused before Flower has it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from flwr.supercore.error import ApiErrorCode, FlowerError

HEAD_BYTES = 2**22
"""How many bytes an answer may have beside its payload: its head, and what Flower adds to each piece."""


class AnswerLimit:
    """How much each node may still send.

    Args:
        most: how many bytes an answer may have.
    """

    def __init__(self, most: int) -> None:
        self._most = most + most // 100 + HEAD_BYTES
        self._left = Counter[int]()
        self._pieces: dict[int, set[str]] = {}
        """The pieces of what each node sends now."""
        self._refused: set[str] = set()
        """Pieces of answers that will not be whole: nobody is to wait for them."""

    def fetched(self, node: int, messages: int) -> None:
        """A node has fetched messages, and may answer each."""
        self._left[node] += messages * self._most

    def sent(self, node: int, size: int) -> None:
        """Counts what a node sends. Raises FlowerError where that is more than it may send."""
        if size > self._left[node]:
            print(f"Refused {size} bytes of node {node}: its answer is larger than the limit.", flush=True)
            raise FlowerError(ApiErrorCode.FLEET_RUN_STATUS_NOT_ALLOWED, f"Node {node} sends more than it may.")
        self._left[node] -= size

    def hold(self, handlers: Any, of_run: Any) -> None:
        """Has Flower's handlers keep to it: of what nodes ask, and of what the run asks, which fetches the pieces."""
        pull, push, piece = handlers.pull_messages, handlers.push_messages, handlers.push_object
        fetch = of_run.pull_object

        def pull_messages(request: Any, **more: Any) -> Any:
            response = pull(request=request, **more)
            self.fetched(request.node.node_id, len(response.messages_list))
            return response

        def push_messages(request: Any, **more: Any) -> Any:
            self.sent(request.node.node_id, request.ByteSize())
            response = push(request=request, **more)
            self._pieces[request.node.node_id] = set(response.objects_to_push)
            return response

        def push_object(request: Any, **more: Any) -> Any:
            try:
                self.sent(request.node.node_id, len(request.object_content))
            except FlowerError:
                self._refused |= self._pieces.pop(request.node.node_id, set()) | {request.object_id}
                raise
            self._refused.discard(request.object_id)
            return piece(request=request, **more)

        def pull_object(request: Any, *more: Any) -> Any:
            response = fetch(request, *more)
            if request.object_id in self._refused and not response.object_available:
                response.object_found = False
            return response

        of_run.pull_object = pull_object
        handlers.pull_messages, handlers.push_messages, handlers.push_object = pull_messages, push_messages, push_object
