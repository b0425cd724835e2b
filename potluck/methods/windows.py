"""The masked-window mean: one way to average tensors that only partly cover each other.

A contribution has a value, a weight, where in the whole it lies (a start or a tensor of positions for each dimension)
and perhaps a mask of what counts in it. At each position of the whole the result is Σ weight·value / Σ weight over the
contributions that cover it; a position nobody covers keeps its old value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Place = Sequence[int | Tensor]
"""For each dimension where a window begins, or, if it has gaps or wraps round, its positions, no two the same."""


def window(at: Place, shape: Sequence[int]) -> tuple[Any, ...]:
    """A window of that shape as an index: ``whole[window(at, shape)]`` is what lies in it."""
    spans = [_span(p, length) for p, length in zip(at, shape, strict=True)]
    if sum(isinstance(span, Tensor) for span in spans) < 2:
        return tuple(spans)
    positions = [torch.arange(s.start, s.stop) if isinstance(s, slice) else s for s in spans]
    return tuple(p.reshape(-1, *[1] * (len(shape) - 1 - dimension)) for dimension, p in enumerate(positions))


def _span(at: int | Tensor, length: int) -> slice | Tensor:
    """Positions one after the other as a slice, which is read and written several times faster."""
    if isinstance(at, Tensor):
        first = int(at[0]) if len(at) else 0
        if not at.equal(torch.arange(first, first + len(at), dtype=at.dtype, device=at.device)):
            return at
        at = first
    return slice(at, at + length)


class WindowMean:
    """A running mean over one tensor: contributions are merged as they come and need not be kept."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._sum = torch.zeros(tuple(shape), dtype=torch.float64)
        self._weight = torch.zeros(tuple(shape), dtype=torch.float64)

    def add(self, value: Tensor, weight: float = 1.0, at: Place | None = None, mask: Tensor | None = None) -> None:
        """Merges one contribution."""
        place = window(at or [0] * value.ndim, value.shape)
        share = weight if mask is None else mask.to(torch.float64) * weight
        self._sum[place] += value.to(torch.float64) * share
        self._weight[place] += share

    def result(self, old: Tensor) -> Tensor:
        """The mean where anything was added, the old value elsewhere, in the old value's type."""
        covered = self._weight > 0
        mean = self._sum / self._weight.where(covered, 1.0)
        if not old.is_floating_point():
            mean = mean.round()
        return torch.where(covered, mean, old.to(torch.float64)).to(old.dtype)
