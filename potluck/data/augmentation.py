"""Augmentations of pictures whose numbers are drawn apart from their use, and normalisation, which draws none.

Pictures are stored as their model reads them: channels first, or no channels. In a plan:
``Plan(augment=[Crop(4), Flip()], transform=Normalize((0.491, 0.482, 0.447), (0.247, 0.243, 0.262)))``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.augmentation import Augmentation
from potluck.core.errors import DataError, SettingsError
from potluck.core.settings import check_count


@dataclass(frozen=True)
class Crop(Augmentation):
    """Moves a picture by up to ``padding`` pixels each way; what comes in at the edges is 0.

    That is a random crop of the picture's own size, of the picture with so many pixels of 0 around it.

    Args:
        padding: how many pixels; by default 4.
    """

    padding: int = 4

    def __post_init__(self) -> None:
        check_count("padding", self.padding, "pixels", least=0)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Where the crop of each picture begins."""
        return torch.randint(2 * self.padding + 1, (count, 2), generator=generator)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """The crops."""
        height, width = _size(x, self)
        flat = F.pad(x.reshape(len(x), -1, height, width), [self.padding] * 4)
        crops = flat.unfold(2, height, 1).unfold(3, width, 1)  # every crop, as a view
        pictures = torch.arange(len(x), device=x.device)
        return crops[pictures, :, drawn[:, 0], drawn[:, 1]].reshape(x.shape)


@dataclass(frozen=True)
class Flip(Augmentation):
    """Mirrors some pictures, left to right.

    Args:
        share: the share of pictures that are; by default 0.5.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise SettingsError(f"share is {self.share!r}; expected a number from 0 to 1.")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Which pictures are mirrored."""
        return torch.rand(count, generator=generator) < self.share

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """The pictures, some of them mirrored."""
        _size(x, self)
        return torch.where(drawn.reshape(-1, *[1] * (x.ndim - 1)), x.flip(-1), x)


@dataclass(frozen=True)
class Cutout(Augmentation):
    """Sets a square of each picture to 0; its middle may be anywhere, so that it may stand over the edge.

    DeVries and Taylor, 2017: Improved regularization of convolutional neural networks with Cutout.

    Args:
        size: how many pixels a side of the square has; by default 8.
    """

    size: int = 8

    def __post_init__(self) -> None:
        check_count("size", self.size, "pixels", least=1)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """The middle of each square, as shares of height and width."""
        return torch.rand(count, 2, generator=generator)

    def apply(self, x: Tensor, drawn: Tensor) -> Tensor:
        """The pictures without their squares."""
        inside = []
        for axis, length in enumerate(_size(x, self)):
            first = (drawn[:, axis] * length).long() - self.size // 2
            places = torch.arange(length, device=x.device) - first[:, None]
            inside.append((places >= 0) & (places < self.size))
        squares = inside[0][:, :, None] & inside[1][:, None, :]
        return x.masked_fill(squares.reshape(len(x), *[1] * (x.ndim - 3), *squares.shape[1:]), 0)


class Normalize:
    """Takes away a mean and divides by a deviation: for all numbers, or for each channel or column.

    Bytes are divided by 255 before. A transform: ``Plan(transform=Normalize(0.13, 0.31))``.

    Args:
        mean: one number, or one for each place along the first axis of a sample: numbers, a tensor or an array.
        deviation: the same.
    """

    def __init__(self, mean: Any, deviation: Any) -> None:
        self.mean, self.deviation = _numbers(mean), _numbers(deviation)
        if not all(map(isfinite, (*self.mean, *self.deviation))) or not all(self.deviation):
            raise SettingsError(f"{self!r}: expected finite numbers, and none of 0 to divide by.")
        if len(self.mean) != len(self.deviation) and 1 not in (len(self.mean), len(self.deviation)):
            raise SettingsError(f"{self!r}: {len(self.mean)} means for {len(self.deviation)} deviations.")

    def __repr__(self) -> str:
        return f"Normalize({list(self.mean)}, {list(self.deviation)})"

    def __call__(self, x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            raise DataError(f"{self!r} reads one tensor; got {type(x).__name__}. Write a function that picks its part.")
        floats = x if x.is_floating_point() else x.float() / 255 if x.dtype == torch.uint8 else x.float()
        axes = floats.ndim - 1
        return (floats - _along(self.mean, axes, floats)) / _along(self.deviation, axes, floats)


def _numbers(given: Any) -> tuple[float, ...]:
    return tuple(torch.as_tensor(given, dtype=torch.float64).reshape(-1).tolist())


def _along(values: tuple[float, ...], axes: int, like: Tensor) -> Tensor | float:
    """Values along the first axis of a sample; one alone stays a number."""
    if len(values) == 1:
        return values[0]
    if axes < 1 or like.shape[1] != len(values):
        found = tuple(like.shape[1:])
        raise DataError(
            f"Normalize was given {len(values)} numbers for samples of shape {found}: one for each of "
            f"{found[0] if found else 1} is expected, or a single one."
        )
    return _held(values, axes, like.dtype, like.device)


@lru_cache(maxsize=64)
def _held(values: tuple[float, ...], axes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Numbers where they are needed, brought there once."""
    return torch.tensor(values, dtype=dtype, device=device).reshape(-1, *[1] * (axes - 1))


def _size(x: Any, owner: Augmentation) -> tuple[int, int]:
    if not isinstance(x, Tensor) or x.ndim < 3:
        found = f"a batch of shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"a {type(x).__name__}"
        raise DataError(f"{owner!r} reads pictures, one tensor of at least two axes for each sample; got {found}.")
    return x.shape[-2], x.shape[-1]
