"""Has Flower's grid hand over an error for an answer that cannot be put together, instead of failing for everybody.

A node's answer comes in pieces, which Flower puts together in the ServerApp as they say they belong together: one piece
may stand in an answer a million times, and what is no answer raises. Whom an answer is to, and from, is what Flower's
server has noted, not what the pieces say.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flwr.app import Array, Error, Message, Metadata
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode
from flwr.supercore.inflatable import inflatable_object as pieces
from flwr.superlink.grid import http_grid

log = logging.getLogger(__name__)


def guard(grid: Any, most: int, module: ModuleType = http_grid) -> None:
    """Guards a grid.

    Args:
        grid: Flower's grid, over HTTP.
        most: how many bytes an answer may have when it is put together.
        module: where the grid finds what puts answers together; by default Flower's own.
    """
    noted: dict[str, Any] = {}
    pull, put_together = grid._runtime_client.PullMessages, module.inflate_object_from_contents

    def pull_messages(request: Any) -> Any:
        response = pull(request)
        noted.update({message.metadata.message_id: message.metadata for message in response.messages_list})
        return response

    def guarded(object_id: str, contents: dict[str, bytes], **more: Any) -> Message:
        about = noted.pop(object_id)
        try:
            if (size := size_of(contents)) > most:
                raise ValueError(f"it has {size} bytes when it is put together; the limit is {most}")
            found = put_together(object_id, contents, **more)
            if not isinstance(found, Message):
                raise TypeError(f"it is a {type(found).__name__}")
            found.metadata.__dict__["_reply_to_message_id"] = about.reply_to_message_id
            return found
        except Exception as error:
            log.warning("An answer of node %d cannot be put together: %s", about.src_node_id, type(error).__name__)
            return _failed(about, error)

    grid._runtime_client.PullMessages = pull_messages
    module.inflate_object_from_contents = guarded  # type: ignore[attr-defined]


def size_of(contents: Mapping[str, bytes]) -> int:
    """How many bytes the arrays in an answer have when they are put together."""
    size = 0
    for content in contents.values():
        if pieces.get_object_type_from_object_content(content) == "Array":
            parts = [len(contents[name]) for name in pieces.get_object_children_ids_from_object_content(content)]
            size += sum(parts[place] for place in json.loads(pieces.get_object_body(content, Array))["arraychunk_ids"])
    return size


def _failed(about: Any, error: Exception) -> Message:
    """What stands for an answer that cannot be put together."""
    metadata = Metadata(
        run_id=about.run_id,
        message_id="",
        src_node_id=about.src_node_id,
        dst_node_id=about.dst_node_id,
        reply_to_message_id=about.reply_to_message_id,
        group_id="",
        created_at=about.created_at,
        ttl=about.ttl,
        message_type="query",
    )
    reason = f"its answer cannot be put together ({type(error).__name__})"
    return make_message(metadata=metadata, error=Error(ErrorCode.MESSAGE_UNAVAILABLE, reason))
