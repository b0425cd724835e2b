"""What the batched engine decides: who is stacked with whom, what runs alone, what is tried again."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import potluck
from potluck.core.job import Job
from potluck.core.requests import Fit, Predict
from potluck.engines import Auto, Batched, Serial, base
from potluck.engines.auto import engine as auto
from potluck.engines.batched import engine as batched
from potluck.engines.batched.trainer import Training
from potluck.learners.network import Network
from potluck.methods import FedAvg, Local
from tests.jobs import CPU, REQUESTS, jobs, samples, trained_together
from tests.tables import PLAN, agree, cnn, made_data, mlp, weights_agree


def dropping(seed, hidden=8):
    torch.manual_seed(seed)
    layers = [nn.Flatten(), nn.Dropout(0.4), nn.Linear(36, hidden), nn.Dropout(0.2), nn.Linear(hidden, 3)]
    return nn.Sequential(*layers).double()


def many(count=19, kinds=1, plan=PLAN, model=dropping):
    """More participants than two blocks hold, of one architecture or of several that take turns."""
    return [
        potluck.Participant(
            f"p{i:02}",
            model(i, 8 + i % kinds),
            made_data(9 + i % 4, i),
            plan=plan,
            labels=range(3),
            test=made_data(9, 50),
        )
        for i in range(count)
    ]


def played(people, engine="batched", method=None, rounds=2, **settings):
    federation = potluck.Federation(people, method or FedAvg(), seed=3, engine=engine, **settings)
    federation.run(rounds)
    return federation


@pytest.mark.parametrize("kinds", [1, 2])
def test_what_dropout_draws_does_not_depend_on_how_many_run_together(kinds, monkeypatch):
    sizes = trained_together(monkeypatch)
    everybody = played(many(kinds=kinds), method=Local())
    assert max(sizes) == batched.BLOCK // kinds
    for together in (8, 10, 16):
        some = played(many(kinds=kinds), method=Local(), max_concurrent=together)
        agree(everybody.history.rows(), some.history.rows(), 1e-12)  # a reading of more at once may round otherwise
        weights_agree(everybody.participants.values(), some.participants.values(), 0)
    few = played(many(kinds=kinds), method=Local(), max_concurrent=5)
    assert few.history.rows()[0]["loss"] == pytest.approx(everybody.history.rows()[0]["loss"], rel=0.5)
    assert [row["loss"] for row in few.history.rows()] != [row["loss"] for row in everybody.history.rows()]


def test_blocks_stay_whole_where_some_sit_out_or_drop_out():
    """Who is lost at an exchange leaves a gap, and nobody moves up into another block."""

    gone = potluck.Availability(leaves={"p03": 1.0})
    runs = [played(many(), max_concurrent=n, participation=0.9, availability=gone) for n in (None, 8)]
    assert any(row["took_part"] and row["refused"] for row in runs[0].history.rows())
    agree(runs[0].history.rows(), runs[1].history.rows(), 0)


def test_networks_that_draw_nothing_are_stacked_beyond_a_block(monkeypatch):
    sizes = trained_together(monkeypatch)
    played(many(model=lambda seed, hidden: mlp(seed, hidden)), method=Local(), rounds=1)
    assert sizes == [19]


def test_what_a_stack_draws_does_not_depend_on_those_that_train_beside_it(monkeypatch):
    """As on a GPU, where all trainings run side by side."""

    def work(seed, hidden):
        learners = [Network(dropping(seed + i, hidden)) for i in range(3)]
        return [Job(f"p{i}", Fit(), one, samples(20, i), PLAN, seed=i, round=1) for i, one in enumerate(learners)]

    engine = Batched(CPU)
    engine._side_by_side = True
    alone, beside, others = work(0, 8), work(0, 8), work(5, 9)
    engine.answer(alone)
    plain = jobs(REQUESTS["cross entropy"])
    engine.answer([*others, *beside, *plain])
    for one, other in zip(alone, beside, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=0, atol=0)


def test_a_resume_with_another_amount_of_memory_is_equal_to_the_unbroken_run(monkeypatch, tmp_path):
    """Who runs together, and so what Dropout draws, is decided by the memory that was free when the run began."""
    largest = max(person.working_bytes for person in played(many(), rounds=0).participants.values())

    def free(rooms):
        monkeypatch.setattr(base, "free_memory", lambda device: int(rooms * largest / base.USABLE) + 1)

    free(5)
    unbroken = played(many(), rounds=3)
    assert unbroken.engine._together == 5
    played(many(), rounds=0).run(1, run_dir=tmp_path)
    free(100)
    resumed = potluck.Federation(many(), FedAvg(), seed=3, engine="batched")
    resumed.run(3, run_dir=tmp_path, resume=True)
    assert resumed.engine._together == 5
    agree(unbroken.history.rows(), resumed.history.rows(), 0)
    assert played(many(), rounds=3).history.rows()[0]["loss"] != unbroken.history.rows()[0]["loss"]


def test_what_was_found_out_is_in_the_checkpoint_and_used(monkeypatch, tmp_path):
    load = Training.load

    def little_memory(self, jobs):
        if len(jobs) > 4:
            raise torch.OutOfMemoryError("no memory for more than four")
        load(self, jobs)

    monkeypatch.setattr(Training, "load", little_memory)
    people = [*many(9), *(potluck.Participant(f"w{i}", Wayward(i), made_data(9, i), plan=PLAN) for i in range(2))]
    first = potluck.Federation(people, Local(), engine=Batched(CPU))
    first.run(1, run_dir=tmp_path)
    found = first.engine.snapshot()
    assert list(found["most"].values()) == [4]
    assert len(found["unstackable"]) == 1
    assert found["memory"] > 0

    monkeypatch.setattr(Training, "load", load)
    sizes = trained_together(monkeypatch)
    people = [*many(9), *(potluck.Participant(f"w{i}", Wayward(i), made_data(9, i), plan=PLAN) for i in range(2))]
    second = potluck.Federation(people, Local(), engine=Batched(CPU))
    second.run(2, run_dir=tmp_path, resume=True)
    assert second.engine.snapshot() == found
    assert sizes == [4, 4]  # of eight in a block; the ninth is alone, and so are those that cannot be stacked


class Counting(nn.Module):
    """Counts its calls, and grows weary of them."""

    def __init__(self, seed):
        super().__init__()
        self.body, self.calls = mlp(seed), 0

    def forward(self, x):
        self.calls += 1
        return self.body(x) / self.calls


@pytest.mark.parametrize("engine", ["batched", "auto"])
def test_networks_that_change_their_own_attributes_run_alone_and_it_is_said_once(engine, monkeypatch, caplog):
    monkeypatch.setattr("potluck.engines.auto.workers.cores", lambda: 2)

    def run(engine):
        people = [potluck.Participant(f"p{i}", Counting(i), made_data(20, i), plan=PLAN) for i in range(4)]
        return people, played(people, engine, rounds=3, test=made_data(9, 50))

    expected, reference = run("serial")
    found, federation = run(engine)
    assert [one.model.calls for one in found] == [one.model.calls for one in expected]
    assert expected[0].model.calls > 10
    weights_agree(expected, found, 0)
    agree(reference.history.rows(), federation.history.rows(), 0)
    [incident] = federation.engine.incidents
    assert "Counting change their own attributes" in incident
    assert caplog.text.count("change their own attributes") == 1


def test_a_network_that_counts_in_evaluation_alone_is_found_out():
    class Asked(Counting):
        def forward(self, x):
            self.calls += not self.training
            return self.body(x)

    assert Network(Asked(0)).probe(samples(4, 0), PLAN).changes_itself
    assert not Network(Asked(0).body).probe(samples(4, 0), PLAN).changes_itself


class Wayward(nn.Module):
    """Decides by its data which way to go: that cannot be stacked."""

    def __init__(self, seed):
        super().__init__()
        self.body = mlp(seed)

    def forward(self, x):
        return self.body(x) if x.sum() > 0 else self.body(2 * x)


class Failing:
    """Fails at some of its calls, as a library may."""

    def __init__(self, monkeypatch, owner, name, at):
        self.calls, act = 0, getattr(owner, name)

        def failing(*args, **settings):
            self.calls += 1
            if self.calls in at:
                raise RuntimeError("CUDNN_STATUS_INTERNAL_ERROR")
            return act(*args, **settings)

        monkeypatch.setattr(owner, name, failing)


FAILURES = {
    "in the middle of its steps": (REQUESTS["cross entropy"], Training, "_step", (3,), (3, 6)),
    "at its first step": (REQUESTS["cross entropy"], Training, "_step", (1,), (1, 2)),
    "when it is loaded": (REQUESTS["cross entropy"], Training, "load", (1,), (1, 2)),
    "a reading": (lambda i, learner: Predict(samples(9, 1)), batched, "read_together", (1,), (1, 2)),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_failure_in_passing_is_tried_again_and_marks_nothing(failure, monkeypatch):
    work, owner, name, once, _ = failure
    alone, together = jobs(work), jobs(work)
    expected = Serial(CPU).answer(alone)
    Failing(monkeypatch, owner, name, once)
    monkeypatch.setattr(base, "timed_alone", None)
    engine = Batched(CPU)
    found = engine.answer(together)
    assert_equal(zip(alone, together, strict=True), zip(expected, found, strict=True))
    assert not engine.snapshot()["unstackable"]
    [incident] = engine.incidents
    assert "succeeded when it was tried again: CUDNN_STATUS_INTERNAL_ERROR" in incident


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_a_stack_that_fails_twice_runs_alone_and_it_is_said_once(failure, monkeypatch):
    work, owner, name, _, twice = failure
    alone, together, later = jobs(work), jobs(work), jobs(work)
    expected = Serial(CPU).answer(alone)
    tried = Failing(monkeypatch, owner, name, twice)
    engine = Batched(CPU)
    found = engine.answer(together)
    assert_equal(zip(alone, together, strict=True), zip(expected, found, strict=True), tolerance=0)
    calls = tried.calls
    engine.answer(later)
    assert tried.calls == calls, "what failed twice is not stacked again"
    assert len(engine.snapshot()["unstackable"]) == 1
    [incident] = engine.incidents
    assert "cannot be stacked and run one by one: CUDNN_STATUS_INTERNAL_ERROR" in incident


def test_what_was_drawn_before_a_failure_is_drawn_again(monkeypatch):
    """A stack with Dropout that failed and was tried again is what it would have been."""

    def work():
        return [Job(f"p{i}", Fit(), Network(dropping(i)), samples(20, i), PLAN, seed=i, round=1) for i in range(3)]

    smooth, rough = work(), work()
    Batched(CPU).answer(smooth)
    Failing(monkeypatch, Training, "_step", (4,))
    Batched(CPU).answer(rough)
    for one, other in zip(smooth, rough, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=0, atol=0)


@pytest.mark.parametrize("fails", [(2,), (2, 4)])
def test_the_summary_of_a_run_says_what_failed(fails, monkeypatch, tmp_path):
    Failing(monkeypatch, Training, "_step", fails)
    people = [potluck.Participant(f"p{i}", cnn(i), made_data(20, i), plan=PLAN) for i in range(3)]
    potluck.Federation(people, Local(), engine=Batched(CPU)).run(2, run_dir=tmp_path)
    engine = json.loads((tmp_path / "summary.json").read_text())
    [incident] = engine["incidents"]
    assert ("tried again" if len(fails) == 1 else "cannot be stacked") in incident
    assert ("one by one" in engine["decisions"]) == (len(fails) == 2)


def assert_equal(pairs, answers, tolerance=1e-10):
    for one, other in pairs:
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=tolerance, atol=tolerance)
    for one, other in answers:
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_the_automatic_engine_sends_no_such_network_to_a_worker(monkeypatch):
    monkeypatch.setattr(auto, "answer_in_workers", None)
    work = [Job(f"p{i}", Fit(), Network(Counting(i)), samples(20, i), PLAN, seed=i, round=1) for i in range(3)]
    Auto(CPU).answer(work)
    assert all(job.learner.model.calls > 0 for job in work)


@pytest.mark.parametrize(("count", "alone", "how"), [(3, 6, "one by one, since they are few"), (10, 0, "together")])
def test_where_no_graph_can_be_captured_the_cheaper_way_is_taken_and_said(count, alone, how, monkeypatch):
    monkeypatch.setattr(Training, "uncaptured", property(lambda self: "it looks at a number"))
    answered, learner_fit = [], Network.fit
    monkeypatch.setattr(Network, "fit", lambda self, *given: (answered.append(1), learner_fit(self, *given))[1])
    engine, sizes = Batched(CPU), (20,) * count
    for _ in range(2):
        engine.answer(jobs(REQUESTS["cross entropy"], sizes=sizes))
    assert len(answered) == alone
    [incident] = engine.incidents
    assert f"cannot be captured in a CUDA graph, and run {how}" in incident
