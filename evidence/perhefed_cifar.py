"""PerHeFed on CIFAR-10 (section 4): 10 participants with ResNet34, all or half of its layers shared.

The plan is appendix A's: Adam kept across rounds, 1e-4, batches of 256, 5 epochs. Two settings ask why sharing half of
the layers loses so much: everybody shares the same half, and everybody starts from the same weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import potluck
from evidence.experiment import Data, Maker, Setup, run
from evidence.images import balanced, people
from potluck.learners.structure import convolutions
from potluck.methods import FedAvg, Local, PerHeFed
from potluck.models import resnet
from potluck.randomness import derive, seeded

PLAN = potluck.Plan(lr=1e-4, epochs=5, batch_size=256)


def table(
    data: Data,
    seed: int,
    method: potluck.Method,
    same_half: bool = False,
    same_start: bool = False,
    participants: int = 10,
    images: int | None = 20_000,
    rounds: int = 20,
    every: int = 4,
    depth: int = 34,
    plan: potluck.Plan = PLAN,
) -> Setup:
    """``same_half``: everybody shares every second convolution. ``same_start``: all begin with the same weights."""
    cifar = data["cifar10"]
    chosen = balanced(cifar, images, seed)
    shares = potluck.data.iid(cifar.y[chosen], participants, seed).shares
    build = partial(started, seed) if same_start else resnet
    table = people(cifar, [chosen[share] for share in shares], {depth: participants}, plan, build)
    if same_half:
        layers = convolutions(resnet(depth, cifar.shape, len(cifar.labels)))[::2]
        choices: dict[str, Any] = {person.name: dict.fromkeys(layers, 1.0) for person in table}
        method = PerHeFed(choices=choices)
    federation = potluck.Federation(table, method, seed=seed)
    about = {"images": len(chosen), "same half": same_half, "same start": same_start, "plan": repr(plan)}
    return Setup(federation, rounds, (cifar.x_test, cifar.y_test), every, about=about, saving=30.0)


def started(seed: int, depth: int, input_shape: tuple[int, ...], classes: int) -> torch.nn.Module:
    """A ResNet whose first weights depend on the seed alone, not on whose it is."""
    with seeded(derive(seed, "the same start")):
        return resnet(depth, input_shape, classes)


SETTINGS: dict[str, Maker] = {
    "local": partial(table, method=Local()),
    "fedavg": partial(table, method=FedAvg()),
    "all": partial(table, method=PerHeFed(inter=1.0)),
    "half": partial(table, method=PerHeFed(inter=0.5)),
    "all-same-start": partial(table, method=PerHeFed(inter=1.0), same_start=True),
    "half-same-start": partial(table, method=PerHeFed(inter=0.5), same_start=True),
    "same-half": partial(table, method=PerHeFed(), same_half=True),
    "same-half-same-start": partial(table, method=PerHeFed(), same_half=True, same_start=True),
}

if __name__ == "__main__":
    run("perhefed_cifar", SETTINGS)
