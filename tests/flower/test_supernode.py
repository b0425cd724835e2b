"""The participant's side of Flower: a socket that hands messages over, and what a refused node is told."""

from __future__ import annotations

import stat
import threading
import time
from multiprocessing.connection import Client
from pathlib import Path
from types import SimpleNamespace

import pytest

from potluck.core.errors import PotluckError
from potluck.flower import supernode
from potluck.flower.node import FORGOTTEN, LET_IN, RECEIVED, SENT
from potluck.flower.protocol import Acknowledged, Advance, Evaluate, Finished, Message, PhaseEnded, PublicData
from potluck.flower.supernode import ALREADY_IN, REFUSED, LocalSocket, SuperNode, TryAgainError, participate

ASKED = Advance(phase="round", round=2, step=1).message(b"x" * 2000)
ANSWER = PhaseEnded(
    name="ann", phase="round", round=2, step=1, notes={}, metrics={"accuracy": 0.5}, seconds=1.0
).message()


class Answering:
    """A client that gives the same answer to everything, and notes what it was asked."""

    def __init__(self, answer):
        self.reply, self.asked = answer, []

    def answer(self, message):
        self.asked.append(message)
        return self.reply


@pytest.fixture
def local():
    found = LocalSocket(10_000)
    yield found
    found.close()
    assert not Path(found.address).parent.exists()


def handed_over(local, message, client):
    """A message through the socket, as the node hands it over: the answer, and the lines that the owner reads."""
    got, lines = [], []

    def app():
        with Client(local.address, family="AF_UNIX") as connection:
            try:
                connection.send_bytes(message.encoded_head())
                connection.send_bytes(message.body)
                got.append(Message.decode(connection.recv_bytes(), connection.recv_bytes()))
            except (EOFError, OSError):
                got.append(None)

    thread = threading.Thread(target=app)
    thread.start()
    assert local.answer_one(client, lines.append)
    thread.join(10)
    return got[0], lines


def test_a_message_goes_in_and_its_answer_comes_back(local):
    client = Answering(ANSWER)
    found, lines = handed_over(local, ASKED, client)
    assert client.asked == [ASKED]
    assert found == ANSWER
    assert lines == ["round 2: the server asks for step 1, received 2.0 kB", "sent metrics: accuracy 50.00%"]


def test_only_its_user_may_enter_the_folder(local):
    assert stat.S_IMODE(Path(local.address).parent.stat().st_mode) == 0o700


def test_a_message_that_is_far_too_large_is_not_read(local, caplog):
    client = Answering(ANSWER)
    found, _ = handed_over(local, PublicData().message(bytes(2**21)), client)
    assert found is None
    assert client.asked == []
    assert "A message was lost" in caplog.text


def test_where_nothing_comes_it_says_so_soon(local):
    assert not local.answer_one(Answering(ANSWER), print)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (Advance(phase="join", round=0, step=0).message(), "joining: the server asks for step 0"),
        (Evaluate(round=1).message(), "the server asks for an evaluation"),
        (PublicData().message(bytes(1500)), "received the public data, 1.5 kB"),
        (Finished(rounds=3).message(), "the federation has ended"),
    ],
)
def test_the_owner_reads_what_is_asked(local, asked, line):
    _, lines = handed_over(local, asked, Answering(Acknowledged(name="ann").message()))
    assert lines == [line, "answered: acknowledged"]


class Ended:
    """In the place of Flower's program: has ended, and has left this log."""

    def __init__(self, log, ended=1):
        self.log, self.ended = log, ended

    def tail(self, lines=15):
        return "\n".join(self.log.splitlines()[-lines:])


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node whose program is a stand-in with a log."""

    def made(log, ended=1, **settings):
        commands = []
        monkeypatch.setattr(supernode, "Program", lambda command, *_: (commands.append(command), Ended(log, ended))[1])
        given = {"certificates": None, "key": None, "max_payload_bytes": 1000, **settings}
        found = SuperNode("example.org:8443", "/socket", tmp_path / "home", **given)
        (tmp_path / "home" / "supernode.log").write_text(log)
        return found, commands[0]

    return made


def test_a_node_that_runs_is_fine(node):
    node("", ended=None)[0].check()


@pytest.mark.parametrize(
    ("log", "kind", "why"),
    [
        (f"{REFUSED}\n[code: 2001] no such key", PotluckError, "did not let this machine in: .code: 2001. no such key"),
        (f"{REFUSED}\n{ALREADY_IN} known", TryAgainError, "did not let this machine in"),
        (FORGOTTEN, TryAgainError, "clock of this machine"),
        (f"{REFUSED}\n[SSL: WRONG]", PotluckError, r"certificate of the server at example\.org:8443 was refused"),
        ("out of order", PotluckError, r"Flower's node ended \(1\). Its log:\nout of order"),
    ],
)
def test_one_that_ended_is_explained(node, log, kind, why):
    with pytest.raises(kind, match=why) as raised:
        node(log)[0].check()
    assert type(raised.value) is kind


def test_with_tls_and_a_key_it_is_told_of_both_and_without_of_neither(node):
    _, plain = node("")
    _, secure = node("", certificates="/ca.crt", key="/ann")
    assert "--root-certificates" not in plain
    assert "--key" not in plain
    assert secure[secure.index("--root-certificates") + 1] == "/ca.crt"
    assert secure[secure.index("--key") + 1] == "/ann"


def test_its_log_says_whether_it_is_let_in(node):
    assert not node("starting")[0].is_let_in()
    assert node(f"{LET_IN} 7")[0].is_let_in()


def test_the_last_answer_is_waited_for(node, monkeypatch):
    slept = []
    monkeypatch.setattr(supernode.time, "sleep", slept.append)
    node(f"{RECEIVED} a\n{SENT}", ended=None)[0].wait_until_sent()
    assert slept == []
    node(f"{SENT}\n{RECEIVED} a", ended=None)[0].wait_until_sent(timeout=0.01)
    assert slept


class Away:
    """In the place of a node: reaches the server until a moment, and hands nothing over."""

    reached = 0.0

    def __init__(self, *_):
        self.stopped = False

    def check(self):
        pass

    def is_let_in(self):
        return True

    def contact(self):
        return self.reached

    def wait_until_sent(self):
        pass

    def stop(self):
        self.stopped = True


def ends(tmp_path, monkeypatch, reached=0.0, **settings):
    """How taking part ends where the server does not answer any more."""
    monkeypatch.setattr(supernode, "SuperNode", Away)
    monkeypatch.setattr(Away, "reached", reached)
    client = SimpleNamespace(is_done=False, played_all=settings.pop("played_all", False))
    return participate(client, "example.org:8443", tmp_path, max_payload_bytes=1000, report=print, **settings)


def test_a_server_that_goes_after_all_rounds_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(supernode, "FAREWELL_TIMEOUT", 0.1)
    assert ends(tmp_path, monkeypatch, played_all=True) == "missed"


def test_one_that_goes_before_is_waited_for_but_not_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(supernode, "FAREWELL_TIMEOUT", 0.1)
    began = time.monotonic()
    assert ends(tmp_path, monkeypatch, server_timeout=1.5) == "silent"
    assert time.monotonic() - began >= 1.5


def test_one_that_answers_and_has_nothing_to_say_is_waited_for(tmp_path, monkeypatch):
    """As while others are still at work, when all is over here."""
    monkeypatch.setattr(supernode, "FAREWELL_TIMEOUT", 0.1)
    checks = iter(range(4))

    def check():
        if next(checks, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ends(tmp_path, monkeypatch, reached=time.time() + 1000, played_all=True, server_timeout=0.1, check=check)
