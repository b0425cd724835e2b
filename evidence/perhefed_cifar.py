"""PerHeFed on CIFAR-10 (section 4): 10 participants with ResNet34, all or half of its layers shared.

The plan is appendix A's: Adam kept across rounds, 1e-4, batches of 256, 5 epochs. Two settings ask why sharing half of
the layers loses so much: everybody shares the same half, and everybody starts from the same weights.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import potluck
from evidence.experiment import Data, Maker, Setup, everyone, run
from evidence.images import balanced, narrow, people
from potluck.core.labels import decode
from potluck.core.randomness import derive, seeded
from potluck.learners.structure import convolutions
from potluck.methods import FedAvg, Local, PerHeFed
from potluck.models import resnet

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
    source: str = "cifar10",
    build: Callable[..., Any] = resnet,
    trained: bool = False,
    keep_optimizer: bool | None = None,
) -> Setup:
    """``same_half``: everybody shares every second convolution. ``same_start``: all begin with the same weights.
    ``trained``: measured after everybody has trained what it received, not before. ``keep_optimizer``: whether Adam
    remembers across rounds; PerHeFed's does, FedAvg's and Local's do not.
    """
    dataset = data[source]
    chosen = balanced(dataset, images, seed)
    shares = potluck.data.iid(dataset.y[chosen], participants, seed).indices
    build = partial(started, seed, build) if same_start else build
    table = people(dataset, [chosen[share] for share in shares], {depth: participants}, plan, build)
    if same_half:
        layers = convolutions(build(depth, dataset.shape, len(dataset.labels)))[::2]
        choices: dict[str, Any] = {person.name: dict.fromkeys(layers, 1.0) for person in table}
        method = PerHeFed(choices=choices)
    federation = potluck.Federation(table, method, seed=seed, keep_optimizer=keep_optimizer)
    about = {"images": len(chosen), "same half": same_half, "same start": same_start, "plan": repr(plan)}
    whose = after_training if trained else everyone
    return Setup(federation, rounds, (dataset.x_test, dataset.y_test), every, whose, about, saving=30.0)


def started(
    seed: int, build: Callable[..., torch.nn.Module], depth: int, input_shape: tuple[int, ...], classes: int
) -> torch.nn.Module:
    """A network whose first weights depend on the seed alone, not on whose it is."""
    with seeded(derive(seed, "the same start")):
        return build(depth, input_shape, classes)


def after_training(federation: potluck.Federation) -> dict[str, potluck.Participant]:
    """Everybody as it will be when it has trained once more, with a new optimizer. Nobody is changed."""
    copies = [
        potluck.Participant(
            name,
            copy.deepcopy(person.model),
            (person.data.x, decode(person.data.y, person.labels)),
            labels=person.labels,
            plan=person.plan,
        )
        for name, person in federation.participants.items()
    ]
    ahead = potluck.Federation(copies, Local(), seed=federation.seed)
    ahead.run(1)
    return ahead.participants


NARROW: dict[str, Any] = {
    "source": "fashion_mnist",
    "images": 2000,
    "every": 10,
    "depth": 10,
    "plan": potluck.Plan(lr=1e-3, epochs=3, batch_size=64),
    "build": narrow,
}
"""What a CPU can do: 10 participants with 200 images of Fashion-MNIST each, and a ResNet10 an eighth as wide."""
CIFAR: dict[str, Any] = {**NARROW, "source": "cifar10"}
"""The same with the larger scale's data."""
LONG: dict[str, Any] = {**NARROW, "rounds": 200, "every": 20}
"""The narrow ResNet10 for as many rounds as the paper has."""
WHOLE: dict[str, Any] = {"images": None, "rounds": 200, "every": 10, "build": narrow}
"""All of the paper's images, depth, plan and rounds, with networks an eighth as wide; for a GPU."""

ALL, HALF = PerHeFed(inter=1.0), PerHeFed(inter=0.5)
VARIANTS: dict[str, dict[str, Any]] = {
    "local": {"method": Local()},
    "fedavg": {"method": FedAvg()},
    "fedavg-own-norms": {"method": FedAvg(batchnorm="local")},
    "all": {"method": ALL},
    "half": {"method": HALF},
    "all-same-start": {"method": ALL, "same_start": True},
    "half-same-start": {"method": HALF, "same_start": True},
    "all-same-start-fresh": {"method": ALL, "same_start": True, "keep_optimizer": False},
    "same-half": {"method": HALF, "same_half": True},
    "same-half-same-start": {"method": HALF, "same_half": True, "same_start": True},
    "all-trained": {"method": ALL, "trained": True},
    "half-trained": {"method": HALF, "trained": True},
}
SETTINGS: dict[str, Maker] = {
    **{name: partial(table, **variant) for name, variant in VARIANTS.items()},
    **{f"narrow-{name}": partial(table, **variant, **NARROW) for name, variant in VARIANTS.items()},
    **{f"narrow-cifar-{name}": partial(table, **variant, **CIFAR) for name, variant in VARIANTS.items()},
    **{f"narrow-long-{name}": partial(table, **variant, **LONG) for name, variant in VARIANTS.items()},
    **{f"narrow-whole-{name}": partial(table, **variant, **WHOLE) for name, variant in VARIANTS.items()},
}

if __name__ == "__main__":
    run("perhefed_cifar", SETTINGS)
