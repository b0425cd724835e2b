"""The masked-window mean: it averages tensors that cover each other only in part.

A contribution has a value, a weight, its position in the whole (a start or a tensor of positions for each dimension)
and perhaps a mask of what counts in it. At each position of the whole the result is Σ weight·value / Σ weight over the
contributions that cover it; a position that none covers keeps its old value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

WindowPlace = Sequence[int | Tensor]
"""For each dimension where a window begins, or, if it has gaps or wraps round, its positions, all different."""

BLOCK_VALUES = 2**19
"""How many values are worked on at a time: few enough to stay in a processor's cache between two steps."""

GROUP = 4
"""How many contributions to a large whole are merged at once: the sum then goes through memory once for all of them."""


def window(at: WindowPlace, shape: Sequence[int]) -> tuple[Any, ...]:
    """A window of that shape as an index: ``whole[window(at, shape)]`` are its values."""
    starts = [_start(position) for position in at]
    spans = [slice(p, p + length) if isinstance(p, int) else p for p, length in zip(starts, shape, strict=True)]
    if sum(isinstance(span, Tensor) for span in spans) < 2:
        return tuple(spans)
    positions = [torch.arange(s.start, s.stop) if isinstance(s, slice) else s for s in spans]
    return tuple(p.reshape(-1, *[1] * (len(shape) - 1 - dimension)) for dimension, p in enumerate(positions))


class MaskedMean:
    """A running mean over one tensor: contributions are merged as they arrive, at most a few of them wait.

    Sums are in float64, so that the order of the contributions makes no difference that shows. Weights are stored as
    coarsely as the contributions allow: one for the whole, one for each row of a window that is the same in all rows,
    and one for each position only where there are masks or positions in other dimensions than the first.

    Args:
        shape: the shape of the whole.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)
        self._sum: Tensor | None = None
        self._whole = 0.0
        self._waiting: list[tuple[Tensor, float]] = []
        self._rows: dict[tuple[tuple[int, int], ...], Tensor] = {}
        self._each: Tensor | None = None

    def add(
        self, value: Tensor, weight: float = 1.0, at: WindowPlace | None = None, mask: Tensor | None = None
    ) -> None:
        """Merges one contribution.

        Args:
            value: the values.
            weight: how much they count; by default 1.
            at: the position in the whole; by default its beginning.
            mask: which of the values count; by default all.
        """
        if self._sum is None:
            self._sum = torch.zeros(self._shape, dtype=torch.float64)
        place = [0] * value.ndim if at is None else [_start(position) for position in at]
        starts = [position for position in place if isinstance(position, int)]
        if mask is None and value.shape == self._shape and len(starts) == value.ndim:
            self._whole += weight
            self._waiting.append((value, weight))
            if value.numel() <= BLOCK_VALUES or len(self._waiting) == GROUP:
                self._merge_waiting(self._sum)
        elif mask is None and len(starts) >= value.ndim - isinstance(place[0], Tensor):
            key = tuple(zip(starts[-value.ndim + 1 :] if value.ndim > 1 else (), value.shape[1:], strict=True))
            if key not in self._rows:
                self._rows[key] = torch.zeros(self._shape[0], dtype=torch.float64)
            first = place[0]
            self._rows[key][slice(first, first + len(value)) if isinstance(first, int) else first] += weight
            _add_rows(_narrow(self._sum, key), value, weight, first)
            if len(self._rows) * self._shape[0] > self._sum.numel():
                self._forget_rows()
        else:
            self._add_each(self._sum, value, weight, place, mask)

    def _forget_rows(self) -> None:
        """Weights of many different windows, by row, would take more memory than those of each position."""
        if self._each is None:
            self._each = torch.zeros(self._shape, dtype=torch.float64)
        for key, weights in self._rows.items():
            _narrow(self._each, key).add_(weights.reshape(-1, *[1] * (len(self._shape) - 1)))
        self._rows = {}

    def _merge_waiting(self, total: Tensor) -> None:
        waiting, self._waiting = self._waiting, []
        if total.numel() <= BLOCK_VALUES:
            for value, weight in waiting:
                total.add_(value, alpha=weight)
            return
        pieces = (torch.split(flat.reshape(-1), BLOCK_VALUES) for flat in (total, *(value for value, _ in waiting)))
        for sums, *parts in zip(*pieces, strict=True):
            for part, (_, weight) in zip(parts, waiting, strict=True):
                sums.add_(part, alpha=weight)

    def _add_each(self, total: Tensor, value: Tensor, weight: float, at: WindowPlace, mask: Tensor | None) -> None:
        if self._each is None:
            self._each = torch.zeros(self._shape, dtype=torch.float64)
        place = window(at, value.shape)
        share = weight if mask is None else mask.to(torch.float64) * weight
        total[place] += value.to(torch.float64) * share
        self._each[place] += share

    @property
    def empty(self) -> bool:
        """Whether nothing was added."""
        return self._sum is None

    def result(self, old: Tensor) -> Tensor:
        """The mean where anything was added, the old value elsewhere, in the old value's type."""
        found = old.clone(memory_format=torch.contiguous_format)
        if self._sum is None:
            return found
        self._merge_waiting(self._sum)
        # Rows matter only where weights go by row: else all is one long row of values, cut into even blocks.
        total, into = (self._sum, found) if self._rows else (self._sum.view(-1), found.view(-1))
        for rows in _blocks(total):
            weight = self._weights(rows)
            covered, mean = weight > 0, total[rows] / weight
            mean = mean if old.is_floating_point() else mean.round()
            into[rows] = mean if bool(covered.all()) else torch.where(covered, mean, into[rows])
        return found

    def _weights(self, rows: slice) -> Tensor:
        """The weights of some rows: in a shape that broadcasts to them, the smallest that tells all."""
        if not self._rows:
            each = torch.zeros(1, dtype=torch.float64) if self._each is None else self._each.view(-1)[rows]
            return each + self._whole
        by_row = {key: weights[rows].reshape(-1, *[1] * (len(self._shape) - 1)) for key, weights in self._rows.items()}
        whole = tuple((0, length) for length in self._shape[1:])
        if self._each is None and set(by_row) == {whole}:
            return by_row[whole] + self._whole
        painted = torch.zeros(rows.stop - rows.start, *self._shape[1:], dtype=torch.float64)
        if self._each is not None:
            painted += self._each[rows]
        for key, weights in by_row.items():
            _narrow(painted, key).add_(weights)
        return painted.add_(self._whole)


def _start(position: int | Tensor) -> int | Tensor:
    """Positions that follow each other are a window from the first on."""
    if isinstance(position, int) or len(position) == 0:
        return position
    first = int(position[0])
    follow = torch.equal(position, torch.arange(first, first + len(position), device=position.device))
    return first if follow else position


def _narrow(whole: Tensor, key: Sequence[tuple[int, int]]) -> Tensor:
    """The part of a tensor that lies in a window of all dimensions but the first."""
    for dimension, (start, length) in enumerate(key, start=1):
        if length != whole.shape[dimension]:
            whole = whole.narrow(dimension, start, length)
    return whole


def _add_rows(total: Tensor, value: Tensor, weight: float, at: int | Tensor) -> None:
    """Adds weight · value to some rows of a sum, from ``at`` on or at those positions, a block at a time."""
    for rows in _blocks(value):
        if isinstance(at, Tensor):
            total.index_add_(0, at[rows], value[rows].to(torch.float64), alpha=weight)
        else:
            total[at + rows.start : at + rows.stop].add_(value[rows], alpha=weight)


def _blocks(tensor: Tensor) -> Iterator[slice]:
    """Slices of the first dimension, each of about a block's size."""
    count = len(tensor)
    size = max(1, BLOCK_VALUES // max(1, math.prod(tensor.shape[1:])))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
