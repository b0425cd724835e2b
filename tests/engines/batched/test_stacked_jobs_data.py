"""Samples of many networks: brought over once, augmented and transformed for all of them at once."""

from __future__ import annotations

import torch

from potluck.engines import Serial
from potluck.engines.batched import stacked_jobs
from potluck.engines.batched.stacked_jobs import StackedData
from potluck.engines.batched.stacking import Capacity
from potluck.engines.batched.trainer import Training
from potluck.learners.schedule import batch_schedule, in_lockstep
from tests.jobs import CPU, PLAN, REQUESTS, jobs


def test_samples_that_were_written_to_are_brought_over_again(monkeypatch):
    """As on a GPU, where samples stay on the device from one training to the next."""
    monkeypatch.setattr(stacked_jobs, "made_by_turn", lambda job, device: False)
    work = jobs(REQUESTS["cross entropy"], sizes=(20, 20))
    data = StackedData(work[0], 40, torch.float64, CPU)
    turns = list(in_lockstep([list(batch_schedule(20, PLAN, job.seed, 1)) for job in work]))

    copies = []

    def first_batch():
        with monkeypatch.context() as patch:
            patch.setattr(
                torch.Tensor, "copy_", lambda own, other, to=torch.Tensor.copy_: (copies.append(1), to(own, other))[1]
            )
            data.load(work, turns)
        return data.batch(data.of_turn(0))["x"]

    before = first_batch()
    assert torch.equal(before[1], work[1].samples.x[turns[0].steps[1].rows])
    assert len(copies) == 2, "x and y"
    assert torch.equal(first_batch(), before)
    assert len(copies) == 2, "what has not changed stays"
    work[1].samples.x.mul_(2)
    assert torch.equal(first_batch()[1], 2 * before[1])
    assert torch.equal(first_batch()[0], before[0])


def test_a_training_sees_samples_that_changed_since_the_last_one(monkeypatch):
    monkeypatch.setattr(stacked_jobs, "made_by_turn", lambda job, device: False)
    alone, together = (jobs(REQUESTS["cross entropy"], sizes=(20, 20, 20)) for _ in range(2))
    training = Training(together, Capacity.of(together), CPU)
    for _ in range(2):
        Serial(CPU).answer(alone)
        training.load(together)
        assert all(training.steps())
        training.fetch_losses()
        training.finish()
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-9, atol=1e-9)
            one.samples.x.neg_()
            other.samples.x.neg_()
