"""Images dealt to participants with networks of several architectures: what FedIN, DraftFed and PerHeFed share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import potluck
from potluck.data import Source
from potluck.models import resnet
from potluck.models.resnet import ResNet


def balanced(source: Source, count: int | None, seed: int) -> NDArray[Any]:
    """The rows of so many training samples, every class in proportion; all of them for None."""
    if count is None or count >= len(source.y):
        return np.arange(len(source.y))
    rows: NDArray[Any] = potluck.data.split_public(np.arange(len(source.y)), source.y, count, seed).x
    return rows


def people(
    source: Source,
    shares: Sequence[NDArray[Any]],
    depths: Mapping[int, int],
    plan: potluck.Plan,
    build: Callable[..., Any] = resnet,
) -> list[potluck.Participant]:
    """``depths``: so many participants with a ResNet of that depth. Names begin with it: ``resnet18-003``."""
    kinds = [depth for depth, count in depths.items() for _ in range(count)]
    return [
        potluck.Participant(
            f"resnet{depth}-{i:03d}",
            partial(build, depth),
            (source.x[rows], source.y[rows]),
            labels=source.labels,
            plan=plan,
        )
        for i, (depth, rows) in enumerate(zip(kinds, shares, strict=True))
    ]


def narrow(depth: int, input_shape: Sequence[int], classes: int) -> ResNet:
    """A ResNet with an eighth of the filters: small enough to train many of them on a CPU."""
    return resnet(depth, input_shape, classes, width=8)


def half(depth: int, input_shape: Sequence[int], classes: int) -> ResNet:
    """A ResNet with half of the filters."""
    return resnet(depth, input_shape, classes, width=32)


def nudged(depth: int, input_shape: Sequence[int], classes: int) -> ResNet:
    """The same with weights that differ in the last digits: what becomes of it is what rounding alone can do."""
    network = narrow(depth, input_shape, classes)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1 + 2e-7)
    return network
