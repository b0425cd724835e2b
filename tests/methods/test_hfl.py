"""HFL: PerHeFed's means at equal depth, with windows that cover the global layers evenly."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import potluck
from potluck.methods import HFL, Local, PerHeFed
from tests.tables import PLAN, cnn, deep_cnn, participants, weights_agree

STILL = PLAN.replace(epochs=0)


def filters_of(*values):
    """A network whose one convolution has these 1×1 filters."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, len(values), 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(len(values), 3))
    net[0].weight.data = torch.tensor(values).reshape(-1, 1, 1, 1)
    return net


def test_windows_cover_the_layer_evenly():
    """p0 covers all three; p1 goes to the first two, p2 to the last two: weights 3, 2 and 2."""
    people = participants([filters_of(1.0, 2.0, 3.0), filters_of(10.0, 20.0), filters_of(4.0)], plan=STILL)
    potluck.Federation(people, HFL()).run(1)
    found = [person.weights()["0.weight"].flatten().tolist() for person in people]
    assert found[0] == pytest.approx([(3 * 1 + 2 * 10) / 5, (3 * 2 + 2 * 20) / 5, (3 * 3 + 1 * 4) / 4])
    assert found[1] == pytest.approx(found[0][:2])
    assert found[2] == pytest.approx(found[0][2:])


def test_a_round_is_the_mean_of_what_each_trained():
    """Convolutions of 4 and 2 filters: the second's cover the first two, the third's the last two."""
    people = participants([cnn(0, 4), cnn(1, 2), cnn(2, 2)])
    alone = copy.deepcopy(people)
    potluck.Federation(alone, Local(), seed=1).run(1)
    potluck.Federation(people, HFL(), seed=1).run(1)
    total, count = torch.zeros(4, 1, 3, 3, dtype=torch.float64), torch.zeros(4, 1, 1, 1, dtype=torch.float64)
    for person, rows in zip(alone, ([0, 1, 2, 3], [0, 1], [2, 3]), strict=True):
        own = person.weights()["0.weight"]
        total[rows] += own.count_nonzero() * own
        count[rows] += own.count_nonzero()
    for person, rows in zip(people, ([0, 1, 2, 3], [0, 1], [2, 3]), strict=True):
        torch.testing.assert_close(person.weights()["0.weight"], (total / count)[rows], rtol=0, atol=1e-12)


def test_with_equal_networks_it_is_perhefed_that_shares_all():
    ours, theirs = (participants([deep_cnn(i) for i in range(3)]) for _ in range(2))
    potluck.Federation(ours, HFL(), seed=1).run(2)
    potluck.Federation(theirs, PerHeFed(inter=1.0), seed=1).run(2)
    weights_agree(ours, theirs, 0)


def test_networks_of_unequal_depth_are_refused():
    with pytest.raises(potluck.RequirementsError, match=r"p1 differs .* shares 3 convolutions, the others 2; HFL"):
        potluck.Federation(participants([deep_cnn(0, 1), deep_cnn(1, 2)]), HFL()).run(0)


def test_most_decide_how_deep_networks_are():
    with pytest.raises(potluck.RequirementsError, match="p2 does not fit the others: it shares 3 convolutions"):
        potluck.Federation(participants([deep_cnn(i, 1 + i // 2) for i in range(3)]), HFL()).run(0)
