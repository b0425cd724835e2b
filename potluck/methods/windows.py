"""The masked-window mean: one way to average tensors that only partly cover each other.

A contribution has a value, a weight, where in the whole it lies (one start for each dimension) and perhaps a mask of
what counts in it. At each position of the whole the result is Σ weight·value / Σ weight over the contributions that
cover it; a position nobody covers keeps its old value.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class WindowMean:
    """A running mean over one tensor: contributions are merged as they come and need not be kept."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._sum = torch.zeros(tuple(shape), dtype=torch.float64)
        self._weight = torch.zeros(tuple(shape), dtype=torch.float64)

    def add(
        self, value: Tensor, weight: float = 1.0, at: Sequence[int] | None = None, mask: Tensor | None = None
    ) -> None:
        """Merges one contribution."""
        starts = at or [0] * value.ndim
        window = tuple(slice(start, start + length) for start, length in zip(starts, value.shape, strict=True))
        share = weight if mask is None else mask.to(torch.float64) * weight
        self._sum[window] += value.to(torch.float64) * share
        self._weight[window] += share

    def result(self, old: Tensor) -> Tensor:
        """The mean where anything was added, the old value elsewhere, in the old value's type."""
        covered = self._weight > 0
        mean = self._sum / self._weight.where(covered, 1.0)
        if not old.is_floating_point():
            mean = mean.round()
        return torch.where(covered, mean, old.to(torch.float64)).to(old.dtype)
