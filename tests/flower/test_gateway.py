"""Which node is which participant: by its key, or by the name that nobody else has."""

from __future__ import annotations

from types import SimpleNamespace

from potluck.flower import gateway as gateway_module
from potluck.flower import slow_answers
from potluck.flower.gateway import Gateway, NoAnswer
from potluck.flower.protocol import Evaluate
from potluck.methods import FedAvg
from tests.flower.fakes import (
    FakeGrid,
    client_of,
    invitation,
    people,
)


def keyed(tmp_path, keys, known):
    """Nodes with these keys, at a server that knows those."""
    grid = FakeGrid([client_of(p, tmp_path) for p in people(FedAvg())])
    nodes = [
        SimpleNamespace(node_id=node, last_activated_at="first", public_key=key)
        for node, key in zip(grid.clients, keys, strict=True)
    ]
    grid.get_nodes = lambda: nodes
    reported = []
    gateway = Gateway(grid, list(known), invitation(FedAvg()), keys=known, report=reported.append)
    gateway.wait_until(lambda: len(gateway.connections) == 3, 0.2)
    return gateway, grid, reported


def test_a_name_belongs_to_a_key(tmp_path):
    gateway, _, reported = keyed(tmp_path, [b"0", b"2", b"1"], {"p0": b"0", "p1": b"1", "p2": b"2"})
    assert set(gateway.connections) == {"p0"}
    assert "p2 sent what cannot be read: it calls itself 'p1'" in reported


def test_a_node_with_an_unknown_key_is_not_asked_for_anything(tmp_path):
    gateway, grid, reported = keyed(tmp_path, [b"0", b"1", b"new"], {"p0": b"0", "p1": b"1", "p2": b"2"})
    assert set(gateway.connections) == {"p0", "p1"}
    assert all(node != 102 for node, _ in grid.pushed)
    assert any("has a key that no participant in the file has" in line for line in reported)


def test_without_keys_nobody_takes_a_name_that_is_taken(tmp_path):
    own = people(FedAvg())
    grid = FakeGrid([client_of(own[0], tmp_path), client_of(people(FedAvg())[0], tmp_path / "other")])
    reported = []
    gateway = Gateway(grid, ["p0"], invitation(FedAvg()), report=reported.append)
    gateway.wait_until(lambda: False, 0.2)
    assert gateway.connections["p0"].node == 100
    assert any("another node does so too" in line for line in reported)


def test_a_node_that_came_back_too_soon_is_let_in_when_the_old_one_is_gone(tmp_path):
    """Killed and started again without a key it has another number, and the old node is believed to be there still."""
    own = people(FedAvg())
    grid = FakeGrid(
        [client_of(own[0], tmp_path), client_of(people(FedAvg())[0], tmp_path), client_of(own[1], tmp_path)]
    )
    del grid.since[101]
    reported = []
    gateway = Gateway(grid, ["p0", "p1"], invitation(FedAvg()), report=reported.append)
    gateway.wait_until(lambda: len(gateway.connections) == 2, 5)
    grid.since[101] = "again"
    gateway.wait_until(lambda: False, 0.1)
    assert gateway.connections["p0"].node == 100
    assert [head["kind"] for node, head in grid.pushed if node == 101] == ["invitation"]  # it is not asked all the time
    del grid.since[102]  # that another one goes makes no difference
    gateway.wait_until(lambda: False, 0.1)
    assert gateway.connections["p0"].node == 100
    del grid.since[100]
    gateway.wait_until(lambda: gateway.connections["p0"].node == 101, 5)
    assert gateway.is_connected("p0")
    assert reported[-1] == "p0 is back"


def test_who_leaves_and_who_returns_is_said_once(tmp_path):
    grid = FakeGrid([client_of(p, tmp_path) for p in people(FedAvg())])
    reported = []
    gateway = Gateway(grid, ["p0", "p1", "p2"], invitation(FedAvg()), report=reported.append)
    gateway.wait_until(lambda: len(gateway.connections) == 3, 5)
    reported.clear()
    del grid.since[101]
    gateway.wait_until(lambda: False, 0.05)
    assert reported == ["p1 left; it may come back"]
    grid.since[101] = "again"
    gateway.wait_until(lambda: gateway.is_connected("p1"), 5)
    grid.since[101] = "a third time"  # so quickly that nobody saw it away
    gateway.wait_until(lambda: len(reported) > 3, 5)
    assert reported == ["p1 left; it may come back", "p1 is back"] * 2


def test_who_is_slow_is_said_once(tmp_path, monkeypatch):
    for module in (gateway_module, slow_answers):
        monkeypatch.setattr(module, "SLOW_AFTER", 0.02)
    grid = FakeGrid([client_of(p, tmp_path) for p in people(FedAvg())])
    reported = []
    gateway = Gateway(grid, ["p0", "p1", "p2"], invitation(FedAvg()), report=reported.append)
    gateway.wait_until(lambda: len(gateway.connections) == 3, 5)
    reported.clear()
    grid.silent.add(102)
    asked = {name: Evaluate(round=1).message() for name in ("p0", "p1", "p2")}
    answers = {name: answer for name, _, answer in gateway.ask(asked, dict.fromkeys(asked, 0.3), lambda _: False)}
    assert isinstance(answers["p2"], NoAnswer)
    assert [line.partition(":")[0] for line in reported] == ["p2 is slow"]


class Rung:
    """A bell that tells what it is told to."""

    def __init__(self, grid):
        self.grid, self.looked = grid, []

    def wait(self, seconds):
        return list(self.grid._replies)

    def pull(self, identities):
        found = list(identities)
        self.looked.append(found)
        return FakeGrid.pull_messages(self.grid, found)


def test_with_a_bell_only_answers_that_have_come_are_fetched_one_by_one(tmp_path):
    grid = FakeGrid([client_of(p, tmp_path) for p in people(FedAvg())])
    bell = Rung(grid)
    grid.pull_messages = bell.pull
    gateway = Gateway(grid, ["p0", "p1", "p2"], invitation(FedAvg()), bell=bell)
    gateway.wait_until(lambda: len(gateway.connections) == 3, 5)
    bell.looked.clear()
    asked = {name: Evaluate(round=1).message() for name in ("p0", "p1", "p2")}
    answers = [name for name, _, _ in gateway.ask(asked, dict.fromkeys(asked, 5.0), lambda _: False)]
    assert sorted(answers) == ["p0", "p1", "p2"]
    assert [len(found) for found in bell.looked] == [1, 1, 1]


def test_what_the_bell_does_not_tell_is_found_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway_module, "SWEEP_INTERVAL", 0.01)
    grid = FakeGrid([client_of(p, tmp_path) for p in people(FedAvg())])
    bell = Rung(grid)
    bell.wait = lambda seconds: ["of another run"]
    gateway = Gateway(grid, ["p0", "p1", "p2"], invitation(FedAvg()), bell=bell)
    gateway.wait_until(lambda: len(gateway.connections) == 3, 5)
    assert len(gateway.connections) == 3


def test_whose_key_was_revoked_is_not_waited_for(tmp_path):
    grid = FakeGrid([client_of(p, tmp_path) for p in people(FedAvg())])
    reported, revoked = [], []
    gateway = Gateway(grid, ["p0", "p1", "p2"], invitation(FedAvg()), report=reported.append, shut_out=lambda: revoked)
    gateway.wait_until(lambda: len(gateway.connections) == 3, 2)
    grid.silent.add(101)
    asked = gateway.ask({"p1": Evaluate(round=1).message()}, {"p1": 60.0}, lambda _: True)
    revoked.append("p1")
    ((name, _, answer),) = asked
    assert (name, answer) == ("p1", NoAnswer("its key was revoked"))
    gateway.wait_until(lambda: "p1" in gateway.declined, 2)
    assert "p1 was refused: its key was revoked" in reported
    assert not gateway.is_connected("p1")
