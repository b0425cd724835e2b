"""What a node sends cannot end the run where Flower puts it together."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.app import Message
from flwr.supercore.inflatable import inflatable_object as pieces
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import http_grid

from potluck.flower.app.potluck_app.records import from_records, to_records
from potluck.flower.guarded_grid import guard, size_of

ABOUT = {"message_id": "", "run_id": 1, "src_node_id": 7, "dst_node_id": 1, "created_at": 1.0, "ttl": 60.0}


def answer(body):
    """An answer's number and its pieces."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    message = Message(to_records("{}", body), 1, "query")
    contents = {name: each.deflate() for name, each in pieces.get_all_nested_objects(message).items()}
    return message.object_id, contents


def handed_over(number, contents, most=1000):
    """What the grid hands over of it."""
    about = SimpleNamespace(**{**ABOUT, "message_id": number, "reply_to_message_id": "asked"})
    listed = SimpleNamespace(messages_list=[SimpleNamespace(metadata=about)])
    grid = SimpleNamespace(_runtime_client=SimpleNamespace(PullMessages=lambda request: listed))
    module = SimpleNamespace(inflate_object_from_contents=inflate_object_from_contents)
    guard(grid, most, module)
    grid._runtime_client.PullMessages(None)
    return module.inflate_object_from_contents(number, contents)


def array_of(contents):
    return next(n for n, c in contents.items() if pieces.get_object_type_from_object_content(c) == "Array")


def changed(contents, change):
    """The pieces with another body of the array."""
    name = array_of(contents)
    head, _, body = contents[name].partition(b"\0")
    told = change(json.loads(body))
    text = told if isinstance(told, bytes) else json.dumps(told).encode()
    kind, children, _ = head.decode().split(" ")
    return {**contents, name: f"{kind} {children} {len(text)}".encode() + b"\0" + text}


def test_an_answer_is_handed_over_as_it_is_and_is_to_what_flower_says():
    number, contents = answer(b"x" * 500)
    assert size_of(contents) >= 500
    found = handed_over(number, contents)
    assert from_records(found.content) == ("{}", b"x" * 500)
    assert found.metadata.reply_to_message_id == "asked"


@pytest.mark.parametrize(
    "change",
    [
        lambda told: {**told, "arraychunk_ids": [0] * 10**6},  # half a gigabyte of one piece
        lambda told: {**told, "arraychunk_ids": [99]},
        lambda told: {**told, "arraychunk_ids": None},
        lambda told: [],
        lambda told: b"\xff",
        lambda told: b"[" * 100_000,
    ],
)
def test_what_cannot_be_put_together_is_an_error_of_its_sender(change):
    number, contents = answer(b"x" * 500)
    found = handed_over(number, changed(contents, change))
    assert found.has_error()
    assert "cannot be put together" in found.error.reason
    assert found.metadata.reply_to_message_id == "asked"


def test_pieces_that_are_missing_or_are_no_message_are_an_error():
    number, contents = answer(b"x" * 500)
    assert handed_over(number, {}).has_error()
    assert handed_over(array_of(contents), contents).has_error()
    assert handed_over(number, dict.fromkeys(contents, b"nonsense")).has_error()


def test_flowers_grid_has_what_is_guarded():
    assert callable(http_grid.inflate_object_from_contents)
    assert "self._runtime_client.PullMessages(" in Path(http_grid.__file__).read_text()
