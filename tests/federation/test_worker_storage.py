"""Participants that live with their engine: sent once, fetched when looked at, sent back where they were changed."""

from __future__ import annotations

import copy

import pytest
import torch

import potluck
from potluck.federation.worker_storage import WorkerStorage
from potluck.methods import Local
from tests.tables import PLAN, mlp, participants


class FakeHost:
    """Holds copies, as processes do."""

    def __init__(self) -> None:
        self.held: dict[str, dict[str, object]] = {}
        self.told: list[str] = []

    def take(self, parties):
        for party in parties:
            self.told.append(f"take {party.name}")
            self.held[party.name] = {name: copy.deepcopy(party.held[name]) for name in party.changing}

    def fields(self, name):
        self.told.append(f"fetch {name}")
        return copy.deepcopy(self.held[name])

    def put_back(self, changed):
        for name, fields in changed.items():
            self.told.append(f"put back {name}: {', '.join(sorted(fields))}")
            self.held[name] |= copy.deepcopy(dict(fields))

    def forget(self, name):
        self.told.append(f"forget {name}")
        del self.held[name]


@pytest.fixture
def people():
    return list(potluck.Federation(participants([mlp(0), mlp(1)], plan=PLAN), Local()).participants.values())


@pytest.fixture
def host():
    return FakeHost()


@pytest.fixture
def storage(host, people):
    storage = WorkerStorage(host)
    storage.pin(people)
    host.told.clear()
    return storage


def test_who_is_here_is_sent_and_models_and_state_are_here_no_more(people, host):
    WorkerStorage(host).pin(people)
    assert host.told == ["take p0", "take p1"]
    assert not {"learner", "state"} & set(people[0].held)
    assert len(people[0].data) == 24
    assert people[0].storage is not None


def test_what_is_looked_at_is_fetched_and_not_sent_back(people, host, storage):
    weights = people[0].weights()
    assert host.told == ["fetch p0"]
    storage.pin(people)
    assert "put back p0: learner" not in host.told
    assert all(torch.equal(value, people[0].weights()[name]) for name, value in weights.items())


def test_what_is_changed_is_sent_back(people, host, storage):
    people[0].load({name: torch.ones_like(value) for name, value in people[0].weights().items()})
    people[1].state["seen"] = 2
    storage.pin(people)
    assert host.told[-2:] == ["put back p0: learner", "put back p1: state"]
    assert all((value == 1).all() for value in people[0].weights().values())
    assert people[1].state == {"seen": 2}


def test_what_is_set_without_a_look_counts_too(people, host, storage):
    kept = people[0].snapshot()
    people[1].restore(kept)
    storage.pin(people)
    for mine, theirs in zip(people[0].weights().values(), people[1].weights().values(), strict=True):
        assert torch.equal(mine, theirs)


def test_who_is_released_is_here_as_it_was_there(people, host, storage):
    expected = host.held["p0"]["learner"].weights()
    storage.release(people[0])
    assert people[0].storage is None
    assert host.told[-1] == "forget p0"
    assert all(torch.equal(value, expected[name]) for name, value in people[0].weights().items())
    storage.pin(people)
    assert host.told[-1] == "take p0"


def test_evicting_leaves_everybody_where_they_are(people, host, storage):
    storage.evict(people)
    assert host.told == []


def test_a_participant_that_moves_takes_nothing_along_that_it_does_not_need(people):
    twin = people[0].moving()
    assert set(twin.held) == {"learner", "state", "data", "validation", "test"}
    assert (twin.storage, twin.brought_model) == (None, None)
    assert people[0].brought_model is not None
