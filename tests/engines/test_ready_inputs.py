"""Transforms are applied once to whole data, and what was made is kept while there is room."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import torch

from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Predict, Tap
from potluck.core.samples import Samples
from potluck.engines.ready_inputs import ReadyInputs
from potluck.learners.network import Network
from tests.jobs import PLAN, samples
from tests.tables import mlp


class Seen:
    """How many samples each call was given."""

    def __init__(self):
        self.sizes = []


SEEN = Seen()


def times(factor):
    def transform(x):
        SEEN.sizes.append(len(x))
        return x * factor

    return transform


@pytest.fixture
def seen():
    SEEN.sizes.clear()
    return SEEN.sizes


def training(plan, on=None, seed=0, work=None):
    on = on or samples(20, 0)
    return Job("p", work or Fit(), Network(mlp(seed)), on, plan, seed=1, round=1)


def test_what_is_made_of_each_sample_is_made_once():
    plan = PLAN.replace(transform=times(3))
    [job] = ReadyInputs().of([training(plan)])
    assert torch.equal(job.samples.x, 3 * samples(20, 0).x)
    assert torch.equal(job.samples.y, samples(20, 0).y)
    assert torch.equal(job.plan.inputs(job.samples.x, torch.float64), job.samples.x)


def test_it_is_kept_as_long_as_the_data_are_and_shared_by_those_whose_transforms_are_equal(seen):
    ready, on = ReadyInputs(), samples(20, 0)
    first, again, other = (PLAN.replace(transform=times(factor)) for factor in (2, 2, 5))
    for plan in (first, again, other):
        plan.kind_of_transform(on)
    seen.clear()
    made = ready.of([training(first, on), training(again, on.with_targets(more=on.y)), training(other, on)])
    assert made[0].samples.x is made[1].samples.x
    assert torch.equal(made[2].samples.x, 5 * on.x)
    assert seen == [20, 20]
    assert ready.of([training(first, on)])[0].samples.x is made[0].samples.x
    assert seen == [20, 20]
    assert ready._held == 2 * made[0].samples.x.nbytes
    del made, on
    gc.collect()
    ready.of([training(first)])
    assert len(ready._kept) == 1


def test_samples_that_were_written_to_are_transformed_anew():
    ready, on, plan = ReadyInputs(), samples(20, 0), PLAN.replace(transform=times(2))
    before = ready.of([training(plan, on)])[0].samples.x.clone()
    on.x.mul_(10)
    assert torch.equal(ready.of([training(plan, on)])[0].samples.x, 10 * before)
    assert ready._held == before.nbytes


def test_what_does_not_fit_is_left_as_it_is():
    size = samples(20, 0).x.nbytes
    ready, plan = ReadyInputs(budget=2 * size), PLAN.replace(transform=times(2))
    jobs = [training(plan, samples(20, seed)) for seed in range(3)]
    made = ready.of(jobs)
    assert [job.plan.transform is None for job in made] == [True, True, False]
    assert made[2] is jobs[2]


def test_large_data_are_transformed_some_at_a_time(monkeypatch, seen):
    monkeypatch.setattr("potluck.engines.ready_inputs.rows_at_once", lambda samples: 8)
    plan = PLAN.replace(transform=times(2))
    plan.kind_of_transform(samples(20, 0))
    seen.clear()
    [job] = ReadyInputs().of([training(plan)])
    assert seen == [8, 8, 4]
    assert torch.equal(job.samples.x, 2 * samples(20, 0).x)


LEFT = {
    "no transform": training(PLAN),
    "augmented before": training(PLAN.replace(transform=times(2), augment=lambda x, generator: x)),
    "by batch": training(PLAN.replace(transform=lambda x: x / x.max())),
    "random": training(PLAN.replace(transform=lambda x: x + torch.rand(()))),
    "read anew": training(PLAN.replace(transform=times(2)), replace(samples(20, 0), reader=lambda rows: rows)),
    "inner features": training(PLAN.replace(transform=times(2)), work=Tap(samples(4, 0), at=["1"], submodules=["1"])),
    "empty": training(PLAN.replace(transform=times(2)), samples(20, 0).take(torch.arange(0))),
}


@pytest.mark.parametrize("job", [job for name, job in LEFT.items() if name != "empty"], ids=lambda job: job.owner)
def test_what_depends_on_more_than_a_sample_is_left_as_it_is(job):
    assert ReadyInputs().of([job]) == [job]


def test_a_reading_is_not_augmented_and_so_is_ready():
    plan = PLAN.replace(transform=times(2), augment=lambda x, generator: x)
    [job] = ReadyInputs().of([training(plan, work=Predict(samples(9, 1)), on=samples(9, 1))])
    assert torch.equal(job.samples.x, 2 * samples(9, 1).x)


def test_several_inputs_and_outputs():
    on = Samples.of({"a": torch.ones(5, 2), "b": torch.arange(5)}, y=torch.zeros(5))
    plan = Plan(transform=lambda x: (x["a"].sum(1), {"c": x["b"]}["c"]))
    [job] = ReadyInputs().of([training(plan, on)])
    assert sorted(job.samples.columns) == ["x.0", "x.1", "y"]
    assert job.samples.x[0].dtype == torch.float64
    assert job.samples.x[1].tolist() == [0, 1, 2, 3, 4]
