"""Windows: which part of a whole tensor a participant holds, and what it sends of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

WindowPlace = Sequence[int | Tensor]
"""For each dimension where a window begins, or, if it has gaps or wraps round, its positions, all different."""


def window(at: WindowPlace, shape: Sequence[int]) -> tuple[Any, ...]:
    """A window of that shape as an index: ``whole[window(at, shape)]`` are its values."""
    starts = [start_of(position) for position in at]
    spans = [slice(p, p + length) if isinstance(p, int) else p for p, length in zip(starts, shape, strict=True)]
    if sum(isinstance(span, Tensor) for span in spans) < 2:
        return tuple(spans)
    positions = [torch.arange(s.start, s.stop) if isinstance(s, slice) else s for s in spans]
    return tuple(p.reshape(-1, *[1] * (len(shape) - 1 - dimension)) for dimension, p in enumerate(positions))


def start_of(position: int | Tensor) -> int | Tensor:
    """Positions that follow each other are a window from the first on."""
    if isinstance(position, int) or len(position) == 0:
        return position
    first = int(position[0])
    follow = torch.equal(position, torch.arange(first, first + len(position), device=position.device))
    return first if follow else position


class Part(NamedTuple):
    """One tensor of those that a participant sends to a merge.

    Args:
        key: the name of the whole that it is a part of.
        value: its values.
        weight: how much it counts; by default 1.
        at: its position in the whole; by default its beginning.
        mask: which of its values count; by default all.
        measured: whether it is what a normalisation layer has measured, and not trained; by default False.
    """

    key: str
    value: Tensor
    weight: float = 1.0
    at: WindowPlace | None = None
    mask: Tensor | None = None
    measured: bool = False

    def of(self, value: Tensor) -> Part:
        """The same part with other values."""
        return self._replace(value=value)
