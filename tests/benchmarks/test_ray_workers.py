"""Two workers beside one: a figure for each, and how many times as fast two are."""

from __future__ import annotations

import pytest

from benchmarks import ray_workers
from potluck.bench.scenarios import MLP


@pytest.mark.slow
def test_rounds_with_one_worker_and_two_are_measured():
    figures = ray_workers.measure(MLP.replace(count=10, samples=8, shape=(12,)), repeats=2)
    assert [figure.name for figure in figures] == ["MLP, one worker", "MLP, two workers", "MLP, two workers over one"]
    assert figures[-1].goal == 1.6


def test_training_dominates():
    assert {scenario.plan.epochs for scenario in ray_workers.SCENARIOS} == {5}
