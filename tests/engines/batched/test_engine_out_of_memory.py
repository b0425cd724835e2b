"""What happens when memory does not suffice: the engine goes on with less at a time, and the result is the same."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from potluck.core.requests import Predict, Tap
from potluck.engines import Batched, Serial
from potluck.engines.batched.trainer import Training
from potluck.learners.network import Network
from tests.jobs import CPU, REQUESTS, jobs, samples, trained_together


def test_memory_that_does_not_suffice_makes_the_stacks_smaller(monkeypatch, caplog):
    sizes, load, failed = [], Training.load, []

    def little_memory(self, jobs):
        assert not any(training() for training in failed), "what did not fit is in the way"
        sizes.append(len(jobs))
        if len(jobs) > 2:
            failed.append(weakref.ref(self))
            raise torch.OutOfMemoryError("no memory for more than two")
        load(self, jobs)

    alone, together, again = (jobs(REQUESTS["cross entropy"], sizes=(20,) * 5) for _ in range(3))
    Serial(CPU).answer(alone)
    monkeypatch.setattr(Training, "load", little_memory)
    engine = Batched(CPU)
    engine.answer(together)
    assert sizes == [5, 3, 2, 1, 2]
    assert "going on with 3" in caplog.text
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-10, atol=1e-10)
    sizes.clear()
    engine.answer(again)
    assert max(sizes) == 2, "what did not fit once is not tried again"


def test_memory_that_does_not_suffice_for_one_is_an_error(monkeypatch):
    def no_memory(self, jobs):
        raise torch.OutOfMemoryError("no memory at all")

    monkeypatch.setattr(Training, "load", no_memory)
    with pytest.raises(torch.OutOfMemoryError, match="at all") as raised:
        Batched(CPU).answer(jobs(REQUESTS["cross entropy"], sizes=(20, 20)))
    assert "does not fit" in raised.value.__notes__[0]


@pytest.mark.parametrize("at", ["view_of", "advance"])
def test_a_step_that_was_broken_off_leaves_nothing_in_the_way(monkeypatch, at):
    """Neither in the frames of the error nor in circles, as a network may make them: Python looks for these later."""
    begin, live = Training.__init__, []

    def begins(self, *args):
        live.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))
        begin(self, *args)

    def no_memory(*args):
        circle = [args]
        circle.append(circle)
        raise torch.OutOfMemoryError("no memory for a step")

    monkeypatch.setattr(Training, "__init__", begins)
    monkeypatch.setattr(f"potluck.engines.batched.trainer.{at}", no_memory)
    work = jobs(REQUESTS["cross entropy"], sizes=(20,) * 8)
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(torch.OutOfMemoryError, match="for a step"):
            Batched(CPU).answer(work)
    finally:
        gc.enable()
    assert len(live) == 4, "8, 4, 2 and 1 at once"
    assert len(set(live)) == 1


def test_memory_that_runs_out_when_results_are_written_does_not_train_anybody_twice(monkeypatch):
    sizes, finish = trained_together(monkeypatch), Training.finish

    def too_late(self):
        finish(self)
        raise torch.OutOfMemoryError("no memory in the end")

    monkeypatch.setattr(Training, "finish", too_late)
    with pytest.raises(torch.OutOfMemoryError, match="in the end"):
        Batched(CPU).answer(jobs(REQUESTS["cross entropy"], sizes=(20, 20)))
    assert sizes == [2]


def test_stacks_that_do_not_fit_side_by_side_run_one_after_the_other_and_it_is_said_once(monkeypatch, caplog):
    """As on a GPU, where all stacks of a wave run at once."""
    train, tried = Batched._train, []

    def only_one_fits(self, stacks):
        tried.append(len(stacks))
        if len(stacks) > 1:
            raise torch.OutOfMemoryError("no memory for two stacks")
        return train(self, stacks)

    monkeypatch.setattr(Batched, "_train", only_one_fits)
    engine = Batched(CPU)
    for _ in range(2):
        alone, together = ([*jobs(REQUESTS["cross entropy"]), *jobs(REQUESTS["proximal term"])] for _ in range(2))
        Serial(CPU).answer(alone)
        engine._answer(engine._stacks(together))
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-10, atol=1e-10)
    assert tried == [2, 1, 1, 2, 1, 1]
    assert caplog.text.count("side by side") == 1


class Crowded:
    """An engine that keeps a stack of others, beside which nothing else fits."""

    def __init__(self, monkeypatch, owner, name):
        self.engine = Batched(CPU)
        self.engine._trainings["others", 0] = object()
        act = getattr(owner, name)

        def crowded(*args):
            if self.engine._trainings:
                raise torch.OutOfMemoryError("others are in the way")
            return act(*args)

        monkeypatch.setattr(owner, name, crowded)


def test_what_is_kept_of_others_makes_room_before_anything_is_halved(monkeypatch, caplog):
    sizes = trained_together(monkeypatch)
    crowded = Crowded(monkeypatch, Training, "load")
    crowded.engine.answer(jobs(REQUESTS["cross entropy"], sizes=(20, 20)))
    assert sizes == [2]
    assert not crowded.engine._trainings
    assert not caplog.text


@pytest.mark.parametrize("work", [Predict(samples(9, 1)), Tap(samples(9, 1), at=["1"])], ids=["predict", "tap"])
def test_what_is_kept_of_others_makes_room_for_one_that_looks_alone(monkeypatch, work):
    [expected] = Serial(CPU).answer(jobs(lambda i, learner: work, sizes=(20,)))
    crowded = Crowded(monkeypatch, Network, "read")
    [found] = crowded.engine.answer(jobs(lambda i, learner: work, sizes=(20,)))
    torch.testing.assert_close(found, expected)


def test_a_training_alone_that_ran_out_of_memory_is_not_begun_again(monkeypatch):
    """It may have changed the network already."""
    crowded = Crowded(monkeypatch, Network, "fit")
    with pytest.raises(torch.OutOfMemoryError, match="in the way"):
        crowded.engine.answer(jobs(REQUESTS["cross entropy"], sizes=(20,)))
