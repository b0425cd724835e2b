"""What each of the three organisations has: handwritten digits, of which each knows some, and a model of its own.

In a real federation each organisation has such a file on its own machine, and shows it to nobody. Here the images are
taken from one data set, so that all three can run on one machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from potluck import data

KNOWN = {"hospital": range(7), "laboratory": range(2, 10), "insurer": (0, 1, 2, 3, 6, 7, 8, 9)}
"""The digits that each of them tells apart."""
EXAMPLES = 4
"""How many images of each digit an organisation has labelled."""

Rows = tuple[NDArray[Any], NDArray[Any]]


def _allocated() -> tuple[data.Source, dict[str, list[int]], list[int]]:
    """The data set, the rows of each organisation, and the rows that are left."""
    source, random = data.digits(), np.random.default_rng(0)
    piles = {digit: random.permutation(np.flatnonzero(source.y == digit)).tolist() for digit in source.labels}
    held = {name: [piles[d].pop() for d in digits for _ in range(EXAMPLES)] for name, digits in KNOWN.items()}
    return source, held, sorted(row for pile in piles.values() for row in pile)


def own(of: str) -> Rows:
    """An organisation's labelled images."""
    source, held, _ = _allocated()
    return source.x[held[of]], source.y[held[of]]


def test(of: str) -> Rows:
    """Test images of the digits it knows."""
    source = data.digits()
    rows = np.isin(source.y_test, list(KNOWN[of]))
    return source.x_test[rows], source.y_test[rows]


def pile() -> data.Source:
    """The public images: what nobody has labelled. Their labels are not used."""
    source, _, left = _allocated()
    return data.Source("pile", source.x[left], source.y[left], source.x_test, source.y_test)


class Residual(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first(self.norms[0](x).relu())
        return x + self.second(self.norms[1](inner).relu())


def small_resnet(input_shape: tuple[int, ...], classes: int, blocks: int = 3, channels: int = 16) -> nn.Module:
    """The laboratory's own model: a small ResNet."""
    body = [Residual(channels) for _ in range(blocks)]
    first = nn.Conv2d(input_shape[0], channels, 3, padding=1)
    return nn.Sequential(
        first, *body, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, classes)
    )
