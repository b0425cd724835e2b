"""The networks of the federation of mixed models. Their last layers all read 64 features, so that heads fit."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from potluck import models


def mlp(input_shape: Sequence[int], classes: int) -> nn.Module:
    """A fully connected network of 256 and 64 units."""
    return models.mlp(input_shape, classes, hidden=[256, 64], activation="relu")


def cnn(input_shape: Sequence[int], classes: int) -> nn.Module:
    """Four convolutions, of 8 to 64 channels, with BatchNorm."""
    return models.cnn(input_shape, classes, channels=[8, 16, 32, 64], norm=True)


def resnet(input_shape: Sequence[int], classes: int) -> nn.Module:
    """A ResNet10 with an eighth of the filters."""
    return models.resnet(10, input_shape, classes, width=8)
