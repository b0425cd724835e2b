"""A worker plays blocks as the engine within it does; here called directly, without processes."""

from __future__ import annotations

import pickle

import pytest
import ray.cloudpickle as cloudpickle
import torch

import potluck
from potluck.core.model_spec import OWN
from potluck.engines.distributed.worker import BlockWorker, Event
from potluck.methods import FD, Local
from tests.tables import PLAN, made_data, mlp, participants

PUBLIC = made_data(12, 9)


def joined(method):
    federation = potluck.Federation(participants([mlp(0), mlp(1)], plan=PLAN), method, public=PUBLIC, engine="batched")
    return federation, [person.moving() for person in federation.participants.values()]


def holding(people, block=0):
    worker = BlockWorker(["/nowhere"], "cpu", "torch", 1)
    fields = {person.name: {name: person.held.pop(name) for name in person.changing} for person in people}
    worker.receive(block, cloudpickle.dumps(people), fields, len(people))
    return worker


def begin(worker, method, phase="round", round=1, names=("p0", "p1")):
    return worker.start(0, phase, dict.fromkeys(names, round), cloudpickle.dumps(getattr(method, phase)), False)


def test_a_phase_goes_from_exchange_to_exchange_and_ends_with_how_all_are():
    method = FD()
    federation, people = joined(method)
    federation.run(1)
    worker = holding(people)
    found, fields = begin(worker, method, "join", 0)
    assert [event.exchange for event in found.events] == ["labels", "labels"]
    assert (found.ended, fields) == (False, None)
    replies = dict.fromkeys(["p0", "p1"], potluck.Payload().to_bytes())
    found, fields = worker.resume(0, replies)
    assert found.ended
    assert [event.arrived().exchange for event in found.events] == [None, None]
    assert fields is not None
    assert set(fields) == {"p0", "p1"}
    assert set(fields["p0"]) == {"learner", "state"}


def test_what_is_trained_is_what_the_engine_trains():
    federation, people = joined(Local())
    worker = holding(people)
    federation.run(1)
    _, fields = begin(worker, Local())
    for name, person in federation.participants.items():
        for mine, theirs in zip(fields[name]["learner"].weights().values(), person.weights().values(), strict=True):
            assert torch.equal(mine, theirs)


def test_who_is_dismissed_ends_and_the_last_one_ends_the_phase():
    method = FD()
    _, people = joined(method)
    worker = holding(people)
    begin(worker, method, "join", 0)
    found, fields = worker.dismiss(0, "p0")
    assert (found.ended, fields) == (False, None)
    found, fields = worker.dismiss(0, "p1")
    assert found.ended
    assert fields is not None


def test_scores_are_those_of_the_engine():
    federation, people = joined(Local())
    test = federation.participants["p0"].data
    worker = holding(people)
    worker.take_test("test", test)
    answering = federation.method.answering()
    found = worker.evaluate(0, {"p0": 0, "p1": 0}, {"p0": "test", "p1": None}, cloudpickle.dumps(answering))
    assert found["p0"] == federation.engine.evaluate(federation.participants, lambda _: test, answering)["p0"]
    assert found["p1"][OWN]["accuracy"] is None


def test_fields_that_were_changed_elsewhere_are_taken_over():
    _, people = joined(Local())
    worker = holding(people)
    found = worker.change(0, {"p0": {"state": {"seen": 1}}})
    assert found["p0"]["state"] == {"seen": 1}
    assert found["p1"]["state"] == {}


def test_an_event_has_its_payload_as_bytes():
    arrival = potluck.core.party.Arrival("a", None, {"kept": 3}, 1.5, 7)
    assert Event.of(arrival).arrived() is arrival
    sent = potluck.Payload({"x": torch.tensor([1.0, float("nan")])}, {"n": 2})
    event = Event.of(potluck.core.party.Arrival("a", potluck.Exchange("votes", sent), seconds=2.0, steps=4))
    again = pickle.loads(pickle.dumps(event)).arrived()
    assert (again.sender, again.seconds, again.steps) == ("a", 2.0, 4)
    assert (again.exchange.name, again.exchange.payload.facts) == ("votes", {"n": 2})
    torch.testing.assert_close(again.exchange.payload["x"], sent["x"], equal_nan=True)


def test_blocks_know_nothing_of_each_other():
    _, people = joined(Local())
    worker = holding(people[:1])
    others = people[1:]
    fields = {person.name: {name: person.held.pop(name) for name in person.changing} for person in others}
    worker.receive(1, cloudpickle.dumps(others), fields, 1)
    with pytest.raises(KeyError):
        begin(worker, Local(), names=("p1",))
