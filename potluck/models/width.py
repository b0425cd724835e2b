"""Widths as a share of a whole network's, as HeteroFL and FedRolex give every participant."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor, nn

from potluck.core.errors import SettingsError

RATES = {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.125, "e": 0.0625}
"""HeteroFL's five levels of computation complexity (Diao et al., 2021, section 4)."""


def as_rate(rate: float | str) -> float:
    """A share of the whole width, above 0 and up to 1, or one of HeteroFL's levels, from "a" to "e"."""
    if isinstance(rate, str) and rate in RATES:
        return RATES[rate]
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise SettingsError(f"rate = {rate!r}; expected a share above 0, up to 1, or one of {', '.join(RATES)}.")
    return float(rate)


def scaled(size: int, rate: float) -> int:
    """The share of a layer's size, rounded up: ⌈rate · size⌉."""
    return math.ceil(round(rate * size, 9))  # 0.1 · 30 is a little more than 3 in floats


class ScaledConv2d(nn.Conv2d):
    """A convolution whose output is divided by the network's rate (HeteroFL, eq. 4).

    So narrow networks' features are as large as wide ones', before they are normalised. HeteroFL scales in training
    alone, since there the whole network answers, whose rate is 1. A narrow one that answers needs it then, too: its
    normalisation has tracked scaled features.

    Args:
        rate: the share of the whole network's width.
        sizes: as for ``nn.Conv2d``.
        settings: as for ``nn.Conv2d``.
    """

    def __init__(self, rate: float, *sizes: Any, **settings: Any) -> None:
        super().__init__(*sizes, **settings)
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / self.rate


def convolution(rate: float, scale: bool, *sizes: Any, **settings: Any) -> nn.Conv2d:
    """A convolution of a network of that rate; one that scales where that is wanted and makes a difference."""
    if scale and rate < 1:
        return ScaledConv2d(rate, *sizes, **settings)
    return nn.Conv2d(*sizes, **settings)
