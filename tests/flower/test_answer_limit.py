"""A node sends no more than an answer may have for each message that it has fetched."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from flwr.proto.fleet_pb2 import PullMessagesResponse, PushMessagesRequest
from flwr.proto.message_pb2 import PullObjectRequest, PullObjectResponse, PushObjectRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.error import FlowerError
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers

from potluck.flower import answer_limit
from potluck.flower.answer_limit import AnswerLimit


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(answer_limit, "HEAD_BYTES", 10)
    return AnswerLimit(100)


def test_each_message_that_was_fetched_may_be_answered(limit):
    with pytest.raises(FlowerError):
        limit.sent(7, 1)
    limit.fetched(7, 1)
    limit.sent(7, 100)
    limit.sent(7, 11)
    with pytest.raises(FlowerError):
        limit.sent(7, 1)
    limit.fetched(7, 2)
    limit.sent(7, 200)
    with pytest.raises(FlowerError):
        limit.sent(8, 1)


def test_it_holds_flowers_handlers_to_it(limit):
    """Those that Flower has now: the names and what stands in the requests must be there."""
    assert {"pull_messages", "push_messages", "push_object"} <= set(vars(fleet_handlers))
    assert "pull_object" in vars(runtime_handlers)
    handed = []
    handlers = SimpleNamespace(
        pull_messages=lambda request, state, store: PullMessagesResponse(messages_list=[{}]),
        push_messages=lambda request, state: handed.append(request) or SimpleNamespace(objects_to_push=["a", "b"]),
        push_object=lambda request, state: handed.append(request),
    )
    missing = PullObjectResponse(object_found=True, object_available=False)
    of_run = SimpleNamespace(pull_object=lambda request, state, task: missing)
    limit.hold(handlers, of_run)
    node = Node(node_id=7)
    handlers.pull_messages(request=SimpleNamespace(node=node), state=None, store=None)
    handlers.push_messages(request=PushMessagesRequest(node=node), state=None)
    handlers.push_object(request=PushObjectRequest(node=node, object_content=bytes(90)), state=None)
    assert len(handed) == 2
    assert of_run.pull_object(PullObjectRequest(object_id="a"), None, None).object_found, "it may come yet"
    with pytest.raises(FlowerError):
        handlers.push_object(request=PushObjectRequest(node=node, object_id="a", object_content=bytes(90)), state=None)
    assert len(handed) == 2
    for piece in ("a", "b"):
        missing.object_found = True
        assert not of_run.pull_object(PullObjectRequest(object_id=piece), None, None).object_found, (
            "nobody waits for it"
        )
