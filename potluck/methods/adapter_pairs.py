"""Low-rank adapters as pairs of A (rank × inputs) and B (outputs × rank), of a convolution with their kernels."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]
"""An adapter's A and B."""

Pairs = dict[str, Pair]
"""Adapters by the path of their layer."""


def down(path: str) -> str:
    """The name of an adapter's A."""
    return f"{path}.lora_A.default.weight"


def up(path: str) -> str:
    """The name of an adapter's B."""
    return f"{path}.lora_B.default.weight"


def named(pairs: Pairs) -> dict[str, Tensor]:
    """Adapters as entries of a network."""
    return {name: part for path, (a, b) in pairs.items() for name, part in ((down(path), a), (up(path), b))}


def paired(tensors: Mapping[str, Tensor], paths: Collection[str]) -> Pairs:
    """Adapters among a network's entries."""
    return {path: (tensors[down(path)], tensors[up(path)]) for path in paths}


def of_rank(pair: Pair, rank: int) -> Pair:
    """The first rows of A and the same columns of B; zeros where there are not so many."""
    a, b = pair
    missing = max(0, rank - len(a))
    a = torch.cat([a[:rank], a.new_zeros(missing, *a.shape[1:])])
    return a, torch.cat([b[:, :rank], b.new_zeros(len(b), missing, *b.shape[2:])], dim=1)


def product(pair: Pair) -> Tensor:
    """B·A as a matrix, outputs × all that one output reads, in float64."""
    a, b = pair
    return b.double().flatten(1) @ a.double().flatten(1)
