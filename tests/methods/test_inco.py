"""InCo by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import potluck
from potluck.methods import FedAvg, InCo, Local
from potluck.models import build
from tests.tables import SHAPE, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)


def kernel(*first):
    whole = torch.zeros(1, 1, 3, 3)
    whole.view(-1)[: len(first)] = torch.tensor(first)
    return whole


@pytest.mark.parametrize(("variant", "expected"), [("code", (0.07876, 0.03168)), ("theorem", (0.06, 0.0))])
def test_a_kernel_is_corrected(variant, expected):
    found = InCo(variant=variant).correct(kernel(0.06, 0.0), kernel(0.03, 0.04))
    torch.testing.assert_close(found, kernel(*expected), rtol=0, atol=1e-5)


def test_the_theorem_removes_what_points_away():
    """⟨g, g0⟩ = −0.0018 and ⟨g0, g0⟩ = 0.0025: θ = 0.72, and nothing along g0 is left."""
    found = InCo(variant="theorem").correct(kernel(-0.06, 0.0), kernel(0.03, 0.04))
    torch.testing.assert_close(found, kernel(-0.06 + 0.72 * 0.03, 0.72 * 0.04))
    assert torch.equal(InCo(variant="theorem").correct(kernel(1.0), kernel()), kernel(1.0))


def test_large_updates_are_clipped_and_theta_is_bounded():
    found = InCo(largest=0.0).correct(kernel(0.06, 0.0), kernel(0.03, 0.04))
    torch.testing.assert_close(found, kernel(0.055, 0.0), rtol=0, atol=1e-6)
    assert InCo(clip=0.05).correct(kernel(0.06, 0.0), kernel(0.03, 0.04)).max().item() == pytest.approx(0.05)


def resnets():
    nets = []
    for seed, depth in enumerate((10, 14, 18)):
        torch.manual_seed(seed)
        nets.append(build(f"resnet{depth}", SHAPE, 3, stem="small", width=2).double())
    return nets


def test_a_round_is_what_the_authors_compute():
    """Kernel by kernel in loops, from what each would have trained alone."""
    people = participants(resnets(), plan=PLAIN)
    federation = potluck.Federation(people, InCo(), seed=1)
    federation.run(0)
    start = [{name: entry.clone() for name, entry in person.weights().items()} for person in people]
    alone = copy.deepcopy(people)
    potluck.Federation(alone, Local(), seed=1).run(1)
    trained = [person.weights() for person in alone]
    federation.run(1)

    def update(name):
        holders = [i for i, own in enumerate(start) if name in own and own[name].shape == start[2][name].shape]
        return sum(trained[i][name].double() - start[i][name].double() for i in holders) / len(holders)

    found = people[2].weights()
    for name, old in start[2].items():
        g = update(name)
        if name.split(".")[1] == "1" and "conv" in name:
            g0 = update(f"{name.split('.')[0]}.0.conv2.weight")
            for a, b in zip(g.flatten(0, 1), g0.flatten(0, 1), strict=True):
                theta = min(abs(float((a * b).sum())) / (float((b * b).sum()) + 1e-7), 5)
                size, size0 = float(a.norm()), float(b.norm())
                a.copy_(((a / (size + 1e-7) + theta * b / (size0 + 1e-7)) * (size + size0) / 2).clamp(-0.1, 0.1))
        expected = old.double() + g
        if not old.is_floating_point():
            expected = expected.round()
        torch.testing.assert_close(found[name].double(), expected, rtol=0, atol=1e-12, msg=name)


def test_where_there_are_no_later_blocks_it_is_layerwise_fedavg():
    def people():
        return participants([resnets()[0], build("cnn", SHAPE, 3, channels=(4,)).double(), *resnets()[:1]])

    ours, theirs = people(), people()
    for mine, other in zip(ours, theirs, strict=True):
        other.network.load(mine.weights())
    potluck.Federation(ours, InCo(), seed=1).run(2)
    potluck.Federation(theirs, FedAvg(aggregation="layerwise", weighting="uniform"), seed=1).run(2)
    weights_agree(ours, theirs, 1e-12)


def test_flat_networks_have_no_blocks():
    """Numbers that name single layers are no blocks, whatever shapes they have."""

    def flat(seed):
        torch.manual_seed(seed)
        convolutions = [nn.Conv2d(4, 4, 3, padding=1) for _ in range(2)]
        return nn.Sequential(nn.Conv2d(1, 4, 3), *convolutions, nn.Flatten(), nn.Linear(64, 3)).double()

    ours, theirs = (participants([flat(i) for i in range(2)]) for _ in range(2))
    potluck.Federation(ours, InCo(), seed=1).run(1)
    potluck.Federation(theirs, FedAvg(weighting="uniform"), seed=1).run(1)
    weights_agree(ours, theirs, 1e-12)
