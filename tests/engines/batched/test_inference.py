"""Readings of a stack are those of its networks one by one."""

from __future__ import annotations

import pytest
import torch

from potluck.core.requests import Predict, Tap
from potluck.engines import Serial
from potluck.engines.batched.inference import read_together
from tests.jobs import CPU, jobs, samples

SHARED = samples(9, 1)
READINGS = {
    "own samples": lambda i, learner: Predict(samples(9, i)),
    "shared samples": lambda i, learner: Predict(SHARED),
    "inner layers": lambda i, learner: Tap(SHARED, at=["1", "4"]),
    "a part": lambda i, learner: Tap(samples(9, i), at=["0"], submodules=["0", "1"]),
}


@pytest.mark.parametrize("rows", [4, 1024], ids=["in batches", "at once"])
@pytest.mark.parametrize("work", READINGS.values(), ids=READINGS)
def test_a_stack_reads_what_each_reads(work, rows, monkeypatch):
    for module in ("potluck.learners.network", "potluck.engines.batched.inference"):
        monkeypatch.setattr(f"{module}.rows_at_once", lambda samples: rows)
    made = jobs(work)
    together = read_together(made, CPU)
    for found, expected in zip(together, Serial(CPU).answer(made), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
