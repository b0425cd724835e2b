"""Pairs of inputs and outputs of intermediate layers, of which a few are drawn from all that are sent (FedIN)."""

from __future__ import annotations

import torch
from torch import Tensor

IN, OUT = "features/in", "features/out"
"""The names under which the pairs (s_in, s_out) travel beside the weights."""


class DrawnPairs:
    """Draws a few pairs from all that are sent, each equally likely, whatever the order in which they arrive.

    Args:
        count: how many pairs of one shape are drawn.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: dict[str, tuple[Tensor, Tensor, Tensor]] = {}

    def add(self, shape: str, inner: Tensor, outer: Tensor, draw: torch.Generator) -> None:
        """Every pair gets a random number; those with the smallest stay."""
        found = (torch.rand(len(inner), generator=draw), inner, outer)
        if shape in self._kept:
            old = self._kept[shape]
            found = (torch.cat([old[0], found[0]]), torch.cat([old[1], inner]), torch.cat([old[2], outer]))
        best = found[0].argsort()[: self._count]
        self._kept[shape] = (found[0][best], found[1][best], found[2][best])

    def batches(self) -> dict[str, dict[str, Tensor]]:
        """The pairs drawn for each shape."""
        return {shape: {IN: inner, OUT: outer} for shape, (_, inner, outer) in self._kept.items()}
