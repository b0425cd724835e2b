"""Trainings for the tests of the automatic engines, and how their results are compared."""

from __future__ import annotations

import torch

from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.requests import Fit
from potluck.learners.network import Network
from tests.jobs import samples

PLAN = Plan(optimizer="adam", lr=0.01, epochs=2, batch_size=8)


def jobs_of(*builds, keep_optimizer=False):
    return [
        Job(f"p{i}", Fit(), Network(build(i)), samples(20 + i, i), PLAN, seed=i, round=1, keep_optimizer=keep_optimizer)
        for i, build in enumerate(builds)
    ]


def same(left, right, tolerance=1e-10):
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(one.learner.optimizer_state, other.learner.optimizer_state)
