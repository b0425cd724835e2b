"""The federations that are measured: made-up data of the shapes that the papers and other libraries use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from potluck.core.plan import Plan
from potluck.federation.participant import Participant
from potluck.models import cnn
from potluck.models.cnn import TABLE_1

Model = str | Callable[..., Any]
Array = np.ndarray[Any, Any]
CIFAR = (3, 32, 32)


@dataclass(frozen=True)
class Scenario:
    """So many participants, who bring these models in turn, with so many samples each of one shape."""

    name: str
    models: tuple[Model, ...]
    count: int
    samples: int
    shape: tuple[int, ...]
    plan: Plan
    classes: int = 10

    @property
    def steps(self) -> int:
        """Optimizer steps of one participant in one epoch."""
        return -(-self.samples // self.plan.batch_size)

    def replace(self, **changes: Any) -> Scenario:
        """This scenario with something changed, e.g. smaller."""
        return replace(self, **changes)

    def participants(self) -> list[Participant]:
        """Everyone with data of its own. A scenario has the same data every time."""
        return [
            Participant(_name(index), model, share, plan=self.plan, labels=range(self.classes))
            for index, (model, share) in enumerate(zip(self.brought(), self.shares(), strict=True))
        ]

    def brought(self) -> list[Model]:
        """Each participant's model."""
        return [self.models[index % len(self.models)] for index in range(self.count)]

    def shares(self) -> Iterator[tuple[Array, Array]]:
        """Each participant's samples: a cloud for each class, so that there is something to learn."""
        centres = np.random.default_rng(0).standard_normal((self.classes, *self.shape), dtype=np.float32)
        for index in range(self.count):
            random = np.random.default_rng((1, index))
            y = random.integers(self.classes, size=self.samples)
            x = random.standard_normal((self.samples, *self.shape), dtype=np.float32)
            yield x + 0.2 * centres[y], y


class Nothing(nn.Module):
    """A model that does nothing: it answers every input with the same numbers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.answer = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.answer.expand(len(x), -1)


def different_cnns() -> tuple[Model, ...]:
    """A hundred CNNs of CoFED's kind, no two alike. Table 1's channels give only 80, so the third layer has 64, too."""
    layers = [sorted({channels[layer] for channels in TABLE_1.values() if layer < len(channels)}) for layer in range(3)]
    third: Sequence[tuple[int, ...]] = [(), (64,), *((channels,) for channels in layers[2])]
    return tuple(partial(cnn, channels=(a, b, *c)) for a, b, c in product(layers[0], layers[1], third))


MLP = Scenario("MLP", ("mlp",), 100, 600, (784,), Plan(optimizer="sgd", lr=0.1, batch_size=32))
"""MNIST's shape and number of samples, dealt to a hundred; MHAT's network, 784-256-64-10."""

CNN = Scenario("CNN", ("cnn",), 20, 250, CIFAR, Plan(optimizer="adam", lr=1e-3, batch_size=50))
"""CIFAR's shape; CoFED's first network, 24 and 40 channels."""

FEDIN = Scenario(
    "FedIN", tuple(f"resnet{depth}" for depth in (10, 14, 18, 22, 26)), 100, 500, CIFAR, Plan(batch_size=16)
)
"""FedIN, section 5.1: twenty each of five ResNets, CIFAR-10 dealt to a hundred."""

COFED = Scenario("CoFED", tuple(f"cofed{number}" for number in TABLE_1), 100, 500, CIFAR, Plan(batch_size=50))
"""CoFED: ten each of the ten CNNs of Table 1."""

DIFFERENT = COFED.replace(name="all different", models=different_cnns())
"""A hundred participants, no two of one architecture."""

NOTHING = Scenario("nothing", (Nothing,), 100, 2, (1,), Plan(optimizer="sgd", batch_size=2))
"""One step of a model that does nothing: what is left is the engine's own cost."""


def _name(index: int) -> str:
    return f"p{index:05d}"
