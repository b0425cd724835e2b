"""The rule by which a strategy is chosen: sizes, counts and cores decide, never the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from potluck.engines.auto.strategies import (
    SMALL_STEP,
    WORTH_FORKING,
    Kind,
    Wave,
    choose,
    convolves,
    key_of,
    operations,
    possible,
)
from tests.engines.auto.helpers import jobs_of
from tests.tables import cnn, mlp

DENSE = Kind("MLP", convolutional=False, layers=6, parameters=218_058, operations=435_456, batch_size=32)
CONVOLUTIONAL = Kind("CNN", convolutional=True, layers=8, parameters=34_962, operations=5_801_984, batch_size=50)
SMALL = replace(CONVOLUTIONAL, name="small CNN", parameters=10_530, operations=307_328)
RESNET26 = Kind("ResNet", convolutional=True, layers=82, parameters=17_452_362, operations=111_781_888, batch_size=16)


def wave(kind, count, samples=600, **settings):
    return Wave(kind, [samples] * count, **{"stackable": count > 1, **settings})


@pytest.mark.parametrize(
    ("waves", "cores", "expected"),
    [
        ([wave(DENSE, 100)], 2, ["stacked"]),
        ([wave(DENSE, 100)], 1, ["stacked"]),
        ([wave(DENSE, 1)], 2, ["alone"]),
        ([wave(DENSE, 100, stackable=False)], 2, ["workers"]),
        ([wave(DENSE, 100, stackable=False)], 1, ["alone"]),
        ([wave(DENSE, 1, 6000), wave(replace(DENSE, name="other"), 1, 6000)], 2, ["workers", "workers"]),
        ([wave(DENSE, 1, samples=32), wave(replace(DENSE, name="other"), 1, samples=32)], 2, ["alone", "alone"]),
        ([wave(CONVOLUTIONAL, 20)], 2, ["workers, channels last"]),
        ([wave(CONVOLUTIONAL, 1)], 2, ["alone"]),
        ([wave(CONVOLUTIONAL, 20)], 1, ["alone"]),
        ([wave(CONVOLUTIONAL, 20, forkable=False, stackable=False)], 2, ["alone"]),
        ([wave(RESNET26, 20)], 2, ["workers"]),
        ([wave(RESNET26, 20, samples=32)], 2, ["alone"]),
        ([wave(RESNET26, 1, samples=32), wave(CONVOLUTIONAL, 2)], 2, ["alone", "workers, channels last"]),
        ([wave(replace(RESNET26, batch_size=64), 20)], 2, ["workers, channels last"]),
        ([wave(SMALL, 20)], 1, ["stacked"]),
        ([wave(SMALL, 2, samples=10)], 2, ["stacked"]),
        ([wave(SMALL, 100)], 2, ["workers, channels last"]),
        ([wave(DENSE, 100), wave(CONVOLUTIONAL, 1), wave(SMALL, 1)], 2, ["stacked", *["workers, channels last"] * 2]),
    ],
)
def test_the_rule(waves, cores, expected):
    assert choose(waves, cores) == expected


def test_work_is_worth_forking_for_from_a_fixed_amount_on():
    samples = 50
    each = CONVOLUTIONAL.seconds(samples)
    enough = int(WORTH_FORKING / each) + 1
    assert choose([wave(CONVOLUTIONAL, enough - 1, samples)], 2) == ["alone"]
    assert choose([wave(CONVOLUTIONAL, enough, samples)], 2) == ["workers, channels last"]


def test_a_step_is_small_up_to_a_fixed_amount():
    largest = replace(SMALL, operations=int(SMALL_STEP) // SMALL.batch_size)
    assert choose([wave(largest, 20)], 1) == ["stacked"]
    assert choose([wave(replace(largest, operations=largest.operations + 1), 20)], 1) == ["alone"]


def test_all_that_is_possible():
    assert possible(wave(CONVOLUTIONAL, 2), accompanied=True, cores=2) == [
        "alone",
        "stacked",
        "workers",
        "workers, channels last",
    ]
    assert possible(wave(DENSE, 2), accompanied=True, cores=2) == ["stacked", "alone", "workers"]
    assert possible(wave(DENSE, 2), accompanied=True, cores=1) == ["stacked", "alone"]
    assert possible(wave(DENSE, 1), accompanied=False, cores=2) == ["alone"]
    assert possible(wave(DENSE, 2, stackable=False, forkable=False), accompanied=True, cores=2) == ["alone"]


def test_kinds_are_known_by_what_makes_them_fast_or_slow():
    one, other, dense = jobs_of(cnn, cnn, mlp)
    assert Kind.of(one) == Kind.of(other) != Kind.of(dense)
    assert key_of(one) == key_of(other) != key_of(dense)
    larger = replace(one, plan=one.plan.replace(batch_size=9))
    assert key_of(larger) != key_of(one)
    assert Kind.of(larger).name != Kind.of(one).name
    assert Kind.of(one).name.startswith("Sequential ")
    assert Kind.of(one).convolutional
    assert not Kind.of(dense).convolutional


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.GRU(8, 4).double(), nn.Linear(4, 3).double()

    def forward(self, x):
        return self.head(self.body(x.flatten(1)[:, :8].unsqueeze(0))[0][0])


def test_operations_count_a_weight_as_often_as_it_is_used():
    [job] = jobs_of(cnn)
    shape = job.samples.x.shape[1:]
    convolution = nn.Sequential(nn.Conv2d(shape[0], 5, 3, padding=1, bias=False), nn.Flatten()).double()
    assert operations(jobs_of(lambda seed: convolution)[0]) == 2 * 5 * shape[0] * 9 * shape[1] * shape[2]
    features = shape.numel()
    linear = nn.Sequential(nn.Flatten(), nn.Linear(features, 7)).double()
    assert operations(jobs_of(lambda seed: linear)[0]) == 2 * (features * 7 + 7)
    recurrent = Recurrent()
    assert operations(jobs_of(lambda seed: recurrent)[0]) == 2 * sum(p.numel() for p in recurrent.parameters())


def test_operations_of_a_network_that_cannot_run_are_its_parameters():
    broken = nn.Sequential(nn.Flatten(), nn.Linear(3, 2)).double()
    assert operations(jobs_of(lambda seed: broken)[0]) == 2 * (3 * 2 + 2)


def test_looking_leaves_a_network_and_the_random_numbers_as_they_were():
    [job] = jobs_of(cnn)
    before, state = job.learner.weights(), torch.get_rng_state()
    operations(job)
    torch.testing.assert_close(job.learner.weights(), before, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(module._forward_hooks for module in job.learner.model.modules())
    assert convolves(job.learner.model)
