"""Nodes wait at the server until there is something for them, and whoever waits is handed nothing."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node

from potluck.flower import long_polling
from potluck.flower.bell import Bell
from potluck.flower.long_polling import MAX_REQUEST_BYTES, PULL_PATH, LongPolling

FOR_FIVE = PullMessagesRequest(node=Node(node_id=5)).SerializeToString()


class Server:
    """Flower's, which answers with a status and a body."""

    def __init__(self, status=200, body=b""):
        self.status, self.body, self.heard = status, body, []

    async def __call__(self, scope, receive, send):
        event = await receive()
        self.heard.append((scope["path"], event["body"]))
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": self.body})


async def asks(polling, path=PULL_PATH, body=FOR_FIVE):
    """What comes back, and after how many seconds."""
    sent, began = [], time.monotonic()
    parts = iter(
        [{"type": "http.request", "body": body[:1], "more_body": True}, {"type": "http.request", "body": body[1:]}]
    )
    whole = iter([{"type": "http.request", "body": body}])

    async def receive():
        return next(parts if path == PULL_PATH else whole)

    async def send(event):
        sent.append(event)

    await polling({"type": "http", "path": path}, receive, send)
    return sent, time.monotonic() - began


@pytest.mark.parametrize(
    ("server", "path", "body"),
    [
        (Server(body=b"a message"), PULL_PATH, FOR_FIVE),
        (Server(status=401), PULL_PATH, FOR_FIVE),
        (Server(), "/v1/fleet/push-messages", FOR_FIVE),
        (Server(), PULL_PATH, b"\xff\xff no request"),
        (Server(), PULL_PATH, FOR_FIVE + bytes(MAX_REQUEST_BYTES)),
    ],
    ids=["a message", "refused", "another request", "unreadable", "too large"],
)
def test_what_is_no_empty_answer_to_a_node_goes_out_at_once(server, path, body):
    sent, seconds = asyncio.run(asks(LongPolling(server, hold=60), path, body))
    assert sent[0]["status"] == server.status
    assert sent[1]["body"] == server.body
    assert seconds < 10


def test_flower_reads_the_request_as_it_came():
    server = Server(body=b"x")

    async def scene():
        sent = []
        events = [{"type": "http.request", "body": FOR_FIVE}]

        async def receive():
            return events.pop(0)

        async def send(event):
            sent.append(event)

        await LongPolling(server)({"type": "http", "path": PULL_PATH}, receive, send)

    asyncio.run(scene())
    assert server.heard == [(PULL_PATH, FOR_FIVE)]


def test_an_empty_answer_waits_for_a_message_to_that_node():
    polling = LongPolling(Server(), hold=60)

    async def scene():
        waiting = asyncio.ensure_future(asks(polling))
        await asyncio.sleep(0.05)
        polling.wake([6])
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await asyncio.get_running_loop().run_in_executor(None, polling.wake, [6, 5])  # from a thread of Flower's
        return await waiting

    sent, seconds = asyncio.run(scene())
    assert sent[1]["body"] == b"", "it is handed nothing, and asks again"
    assert seconds < 10


def test_a_message_that_comes_while_flower_looks_is_not_missed():
    polling = LongPolling(Server(), hold=60)
    look = polling._app.__class__.__call__

    class Late(Server):
        async def __call__(self, scope, receive, send):
            polling.wake([5])
            await look(self, scope, receive, send)

    polling._app = Late()
    assert asyncio.run(asks(polling))[1] < 10


def test_nobody_waits_longer_than_is_set_or_for_a_server_that_stops(monkeypatch):
    monkeypatch.setattr(long_polling, "STOP_INTERVAL", 0.01)
    assert 0.1 <= asyncio.run(asks(LongPolling(Server(), hold=0.1)))[1] < 10
    stopping = iter([False, False, True])
    assert asyncio.run(asks(LongPolling(Server(), stopping=lambda: next(stopping), hold=60)))[1] < 10


def handlers(pieces):
    """Of which one asks for these pieces of a message."""
    return SimpleNamespace(
        push_messages=lambda request: SimpleNamespace(objects_to_push=pieces, session_id="s"),
        push_object=lambda request: "stored",
    )


def pushed(of, to=0, reply_to=""):
    metadata = SimpleNamespace(dst_node_id=to, reply_to_message_id=reply_to)
    return of.push_messages(SimpleNamespace(messages_list=[SimpleNamespace(metadata=metadata)]))


def piece(of, name):
    return of.push_object(SimpleNamespace(session_id="s", object_id=name))


def test_a_node_is_woken_when_its_message_is_whole(tmp_path):
    polling, of_runs = LongPolling(Server()), handlers(["a", "b"])
    woken = []
    polling.wake = woken.append
    polling.watch(handlers([]), of_runs)
    assert pushed(of_runs, to=5).session_id == "s"
    assert piece(of_runs, "a") == "stored"
    assert woken == []
    piece(of_runs, "b")
    assert woken == [[5]]
    piece(of_runs, "b")  # of nothing that is known
    assert woken == [[5]]


def test_a_run_hears_of_an_answer_when_it_is_whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("b")
    bell = Bell(folder)
    polling, of_nodes, at_once = LongPolling(Server(), folder), handlers(["a"]), handlers([])
    polling.watch(of_nodes, handlers([]))
    polling.watch(at_once, handlers([]))
    pushed(of_nodes, reply_to="m1")
    assert bell.wait(0.01) == []
    piece(of_nodes, "a")
    assert bell.wait(5) == ["m1"]
    pushed(at_once, reply_to="m2")
    assert bell.wait(5) == ["m2"]
    bell.close()
