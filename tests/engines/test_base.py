"""What all engines share: who runs together, what a run that goes on takes up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from potluck.core.classification import Classification
from potluck.core.job import Job
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.profiler import by_phase
from potluck.core.requests import Exchange, Fit, Predict
from potluck.core.samples import Samples
from potluck.engines import Serial, base
from potluck.engines.base import timed_alone
from potluck.learners.network import Network

CPU = torch.device("cpu")


class Someone:
    """A party with a model that puts out what it gets."""

    def __init__(self, name="ann", working_bytes=1):
        self.name, self.seed, self.round, self.working_bytes = name, 7, 2, working_bytes
        self.task = Classification((0, 1, 2))
        self.samples = Samples({"x": torch.eye(3), "y": torch.arange(3)})

    def learner_for(self, asked):
        return asked or Network(torch.nn.Identity())

    def samples_for(self, asked):
        return asked or self.samples

    def plan_for(self, asked):
        return asked or Plan()


def sending(me):
    """A half that says what it got, twice."""
    first = yield Exchange("tell", Payload(facts={"name": me.name}))
    second = yield Exchange("tell", Payload(facts={"heard": first.facts}))
    return {"heard": second.facts["count"]}


class Noted:
    """Storage that notes who is in memory."""

    def __init__(self):
        self.seen = []

    def pin(self, parties):
        self.seen.append([party.name for party in parties])

    def evict(self, parties):
        self.seen.append(len(list(parties)))


@pytest.mark.parametrize(("most", "groups"), [(None, [["a", "b", "c"]]), (2, [["a", "b"], ["c"]])])
def test_parties_run_in_groups_that_stay_as_they_began(most, groups):
    engine = base_engine()
    engine.max_concurrent, engine.storage = most, Noted()
    people = [Someone(name) for name in "abc"]
    arrivals = list(engine.start("round", people, sending, keep_optimizer=False))
    assert [arrival.sender for arrival in arrivals] == ["a", "b", "c"]
    assert engine.storage.seen[::2] == groups
    engine.dismiss("b")
    engine.storage.seen.clear()
    second = list(engine.resume({name: Payload(facts={"count": 1}) for name in "ac"}))
    assert [arrival.exchange.payload.facts for arrival in second] == [{"heard": {"count": 1}}] * 2
    assert engine.storage.seen[::2] == [[name for name in group if name != "b"] for group in groups]
    ended = list(engine.resume({name: Payload(facts={"count": 5}) for name in "ac"}))
    assert [(arrival.sender, arrival.exchange, arrival.notes) for arrival in ended] == [
        ("a", None, {"heard": 5}),
        ("c", None, {"heard": 5}),
    ]


class Together(Serial):
    """As the serial engine, with as many together as there is memory for."""

    together = None


def base_engine():
    return Together(CPU)


def test_memory_decides_how_many_run_together_and_is_asked_once(monkeypatch):
    monkeypatch.setattr(base, "total_memory", lambda device: 1000)
    monkeypatch.setattr(base, "free_memory", lambda device: 300)
    engine = base_engine()
    people = [Someone(name, working_bytes) for name, working_bytes in [("a", 70), ("b", 20)]]
    list(engine.start("round", people, sending, keep_optimizer=False))
    assert engine._together == 2, "half of 300 bytes, 70 for each"
    monkeypatch.setattr(base, "free_memory", lambda device: 10)
    list(engine.start("round", people, sending, keep_optimizer=False))
    assert engine._together == 2
    other = base_engine()
    other.restore(engine.snapshot())
    list(other.start("round", people, sending, keep_optimizer=False))
    assert other._together == 2, "a run that goes on counts on the same"
    monkeypatch.setattr(base, "free_memory", lambda device: 999)
    large = base_engine()
    list(large.start("round", people, sending, keep_optimizer=False))
    assert large._together == 3, "half of half of all there is, 70 for each: 250 // 70"


def test_a_fresh_engine_knows_nothing_of_a_federation():
    used = base_engine()
    used.max_concurrent, used.storage = 3, Noted()
    used.profile()
    used.restore({"engine": {"name": "another"}, "memory": 5})
    fresh = used.fresh()
    assert (fresh.device, fresh.precision) == (used.device, used.precision)
    assert (fresh.max_concurrent, fresh.storage, fresh.profiler, fresh.incidents) == (None, None, None, [])
    assert fresh.snapshot()["memory"] is None
    assert used.max_concurrent == 3


def test_an_error_says_at_whom_it_happened():
    def broken(device):
        raise ValueError("no")

    job = SimpleNamespace(owner="ann", round=4, work=Fit(), answer=broken)
    with pytest.raises(ValueError, match="no") as raised:
        timed_alone(job, CPU)
    assert raised.value.__notes__ == ["This happened at ann, in round 4, on Fit."]


def test_profiling_tells_kinds_of_work_from_each_other_and_keeps_the_order_of_the_answers():
    someone, engine = Someone(), base_engine()
    engine.profile()
    reading = Predict(someone.samples, logits=True)
    doubled = Predict(Samples({"x": 2 * torch.eye(3)}), logits=True)
    jobs = [Job("ann", work, Network(torch.nn.Identity()), work.on, Plan(), 1, 1) for work in (reading, doubled)]
    answers = [answer for answer, _ in by_phase(engine.profiler, jobs, engine.timed)]
    torch.testing.assert_close(answers, [torch.eye(3), 2 * torch.eye(3)])
    assert engine.profiler.seconds["predict"] > 0
    assert "train" not in {phase for phase, seconds in engine.profiler.seconds.items() if seconds}


def doubled(x):
    return 2 * x


def test_inputs_are_made_ready_from_the_first_plan_with_a_transform_on():
    engine, samples = base_engine(), Samples({"x": torch.eye(3)})
    plain, changed = (
        Job("ann", Predict(samples), Network(torch.nn.Linear(3, 3)), samples, plan, 1, 1)
        for plan in (Plan(), Plan(transform=doubled))
    )
    assert engine.made_ready([plain]) == [plain]
    assert engine.ready is None
    found = engine.made_ready([plain, changed])
    assert found[0] is plain
    torch.testing.assert_close(found[1].samples.columns["x"], 2 * torch.eye(3))
    ready = engine.ready
    assert engine.made_ready([plain]) == [plain]
    assert engine.ready is ready


def test_where_nobody_asks_for_work_none_is_carried_out(monkeypatch):
    engine = base_engine()
    monkeypatch.setattr(engine, "timed", lambda jobs: pytest.fail("there is nothing to do"))
    arrivals = list(engine.start("round", [Someone("a"), Someone("b")], sending, keep_optimizer=False))
    assert [arrival.exchange.name for arrival in arrivals] == ["tell", "tell"]
