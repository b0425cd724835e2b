"""The first layers of ResNets and DenseNets."""

from __future__ import annotations

from typing import Literal

from torch import nn

from potluck.models.checks import one_of
from potluck.models.width import convolution

Stem = Literal["standard", "small"]
"""``"standard"`` leaves a quarter of the height and width, as for photographs; ``"small"`` leaves all of it."""


def first_layers(kind: Stem, channels: int, width: int, rate: float = 1.0) -> list[nn.Module]:
    """Convolution, BatchNorm, ReLU; the standard stem ends with max-pooling. ``rate``: see ``ScaledConv2d``."""
    if one_of("stem", kind, ("standard", "small")) == "small":
        return [convolution(rate, True, channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    wide = convolution(rate, True, channels, width, 7, stride=2, padding=3, bias=False)
    return [wide, nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
