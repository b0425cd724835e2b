"""A participant's node: what it passes on, what it refuses, and how it goes on."""

from __future__ import annotations

import subprocess
import sys
import threading
from multiprocessing.connection import Listener
from types import SimpleNamespace

import httpx
import pytest
from flwr.app import Message
from flwr.app.message import remove_content_from_message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity

from potluck.flower import node as node_module
from potluck.flower.app.potluck_app.records import from_records, to_records
from potluck.flower.key_folder import make_keys
from potluck.flower.node import SENT, Node, private_key

BODY = bytes(range(256)) * 40


class Server:
    """Flower's functions for a node: it has these messages, and takes what is sent."""

    def __init__(self, *messages):
        self.waiting = list(messages)
        self.pieces, self.answers, self.sent = {}, [], {}
        self.confirmed, self.contacts = [], 0

    def touch(self):
        """In the place of a file that says when the server has answered."""
        self.contacts += 1

    def connection(self):
        return (
            7,
            self.receive,
            self.send,
            None,
            None,
            self.pull,
            self.push,
            lambda run, name: self.confirmed.append(name),
        )

    def receive(self):
        if not self.waiting:
            return None
        message = self.waiting.pop(0)
        if isinstance(message, BaseException):
            raise message
        message.metadata.__dict__["_message_id"] = message.object_id
        self.pieces.update({name: piece.deflate() for name, piece in get_all_nested_objects(message).items()})
        return remove_content_from_message(message), get_object_tree(message)

    def pull(self, run, name):
        return self.pieces[name]

    def send(self, reply, tree, seconds):
        self.answers.append((reply, tree))
        return {each.object_id for each in _all(tree)}, "session"

    def push(self, run, session, name, content):
        self.sent[name] = content


def _all(tree):
    yield tree
    for child in tree.children:
        yield from _all(child)


def made(server, address, most):
    """A node of a server's, for a participant's socket."""
    return Node(server.connection(), address, most, server)


@pytest.fixture
def asked():
    """A message of the server's."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 3, 1, 1
    return Message(to_records('{"kind":"advance"}', BODY), 7, "query")


@pytest.fixture
def participant(tmp_path_factory):
    """The participant's process: a socket that answers every message, or closes where there is no answer."""
    address = str(tmp_path_factory.mktemp("s") / "socket")
    heard = []

    def serve(*answers):
        listener = Listener(address, family="AF_UNIX")

        def run():
            for answer in answers:
                with listener.accept() as connection:
                    heard.append((connection.recv_bytes(), connection.recv_bytes()))
                    for part in answer:
                        connection.send_bytes(part)
            listener.close()

        threading.Thread(target=run, daemon=True).start()
        return address

    return SimpleNamespace(serve=serve, heard=heard)


def test_a_message_is_handed_over_and_its_answer_sent(asked, participant, capsys):
    server = Server(asked)
    made(server, participant.serve((b'{"kind":"end"}', b"back" * 1000)), 10**6).step()
    assert participant.heard == [(b'{"kind":"advance"}', BODY)]
    ((reply, tree),) = server.answers
    assert (reply.metadata.reply_to_message_id, reply.metadata.dst_node_id) == (asked.object_id, 1)
    assert from_records(reply.content) == ('{"kind":"end"}', b"back" * 1000)
    assert set(server.sent) == {each.object_id for each in _all(tree)}
    assert server.confirmed == [asked.object_id]
    assert server.contacts == 2
    assert SENT in capsys.readouterr().out


@pytest.mark.parametrize("most", [1000, len(BODY)])
def test_a_message_that_is_too_large_is_not_handed_over(most, asked, participant, capsys):
    server = Server(asked)
    made(server, "/nowhere", most).step()
    assert server.answers == []
    assert f"the message has more than {most} bytes" in capsys.readouterr().out


def test_a_participant_that_does_not_answer_is_an_error_to_the_server(asked, participant):
    server = Server(asked)
    made(server, participant.serve(()), 10**6).step()
    ((reply, _),) = server.answers
    assert reply.has_error()
    assert reply.error.reason == "EOFError"


def test_what_is_no_message_of_potlucks_is_an_error_to_the_server(participant):
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 3, 1, 1
    odd = to_records("{}", b"")
    del odd["head"]
    server = Server(Message(odd, 7, "query"))
    made(server, "/nowhere", 10**6).step()
    ((reply, _),) = server.answers
    assert reply.error.reason == "ValueError"


def test_one_whose_pieces_say_that_they_are_a_million_is_not_put_together(asked, monkeypatch, capsys):
    monkeypatch.setattr(node_module, "size_of", lambda pieces: 10**9)
    server = Server(asked)
    made(server, "/nowhere", 10**6).step()
    assert server.answers[0][0].has_error()
    assert "1000000000 bytes when it is put together" in capsys.readouterr().out


def test_a_run_that_is_over_and_a_server_that_refuses_the_answer_are_no_end(asked, participant, capsys):
    refusal = httpx.HTTPStatusError("413", request=None, response=None)
    server = Server(RunNotRunningException(), asked)

    def send(*_):
        raise refusal

    server.send = send
    node = made(server, participant.serve((b"{}", b"")), 10**6)
    node.step()
    node.step()
    said = capsys.readouterr().out
    assert "The run is over" in said
    assert "cannot be sent: 413" in said


def test_where_the_server_does_not_hold_it_asks_less_and_less_often(monkeypatch, asked, participant):
    slept = []
    monkeypatch.setattr(node_module.time, "sleep", slept.append)
    server = Server()
    node = made(server, participant.serve((b"{}", b"")), 10**6)
    for _ in range(8):
        node.step()
    assert slept == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]
    server.waiting.append(asked)
    node.step()
    node.step()
    assert slept[8:] == [0.05]


def test_where_it_holds_it_asks_again_at_once(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(node_module.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(node_module.time, "sleep", lambda seconds: pytest.fail("it slept"))
    node = made(Server(), "/nowhere", 1)
    for _ in range(3):
        node.step()


def test_it_imports_no_torch():
    code = "import sys, potluck.flower.node; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_it_reads_the_keys_that_are_made_here(tmp_path):
    make_keys(tmp_path, ["ann"], ["localhost"], 1)
    assert private_key(tmp_path / "ann").curve.name == "secp384r1"
