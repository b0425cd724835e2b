"""Fully connected networks: MHAT's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from potluck.core.randomness import generator
from potluck.models.checks import one_of, one_shape, sizes
from potluck.models.width import as_rate, scaled

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
UNITS = (32, 64, 128, 256, 512, 1024)
"""What MHAT draws the number of units of a layer from (section 4.1)."""


def mlp(
    input_shape: Sequence[int],
    classes: int,
    hidden: Sequence[int] = (256, 64),
    activation: str = "tanh",
    rate: float | str = 1.0,
) -> nn.Module:
    """A fully connected network; by default MHAT's (section 4.1), 256 and 64 units with tanh.

    Args:
        input_shape: the shape of one input.
        classes: how many logits it puts out.
        hidden: the units of each hidden layer; by default 256 and 64.
        activation: "tanh" (the default) or "relu".
        rate: the share of the hidden units that it has, rounded up, or HeteroFL's level "a" to "e"; by default 1.
    """
    activate, share = ACTIVATIONS[one_of("activation", activation, ACTIVATIONS)], as_rate(rate)
    widths = (math.prod(one_shape("mlp", input_shape)), *(scaled(units, share) for units in sizes("hidden", hidden)))
    inner = [layer for pair in pairwise(widths) for layer in (nn.Linear(*pair), activate())]
    return nn.Sequential(nn.Flatten(), *inner, nn.Linear(widths[-1], classes))


def random_mlp(input_shape: Sequence[int], classes: int, seed: int | None = None) -> nn.Module:
    """A fully connected network as MHAT draws them (section 4.1): 2 or 3 layers of 32 to 1024 units with tanh.

    Args:
        input_shape: the shape of one input.
        classes: how many logits it puts out.
        seed: decides the layers, not the weights; by default torch's own random numbers decide both.
    """
    source = None if seed is None else generator(seed, "random mlp")
    layers = int(torch.randint(2, 4, (), generator=source, device="cpu"))
    drawn = torch.randint(len(UNITS), (layers,), generator=source, device="cpu").tolist()
    return mlp(input_shape, classes, hidden=[UNITS[index] for index in drawn])
