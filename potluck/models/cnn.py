"""Small convolutional networks: CoFED's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn

from potluck.core.errors import SettingsError
from potluck.core.randomness import generator
from potluck.models.checks import image_shape, one_of, sizes
from potluck.models.width import as_rate, convolution, scaled

TABLE_1 = {
    1: (24, 40),
    2: (24, 32, 56),
    3: (20, 32),
    4: (24, 40, 56),
    5: (20, 32, 80),
    6: (24, 32, 80),
    7: (32, 32),
    8: (40, 56),
    9: (32, 48),
    10: (48, 56, 96),
}
"""CoFED, Table 1: the channels of each network's 3×3 convolutions."""


def cnn(
    input_shape: Sequence[int],
    classes: int,
    channels: Sequence[int] = (24, 40),
    norm: bool = False,
    rate: float | str = 1.0,
    scale: bool = False,
) -> nn.Module:
    """A small CNN: 3×3 convolution, BatchNorm if asked for, ReLU, 2×2 max-pooling for each layer; one linear layer.

    Args:
        input_shape: channels, height and width of an image.
        classes: how many logits it puts out.
        channels: the channels of each convolution; by default those of the first network in CoFED's Table 1.
        norm: whether BatchNorm follows each convolution; by default False.
        rate: the share of the channels that it has, rounded up, or HeteroFL's level "a" to "e"; by default 1.
        scale: whether a narrower network's features are scaled up, as HeteroFL does; by default False.
    """
    share = as_rate(rate)
    before, height, width = image_shape("cnn", input_shape)
    if not channels:
        raise SettingsError("channels is empty; expected a number of channels for at least one convolution.")
    steps: OrderedDict[str, nn.Module] = OrderedDict()
    for number, after in enumerate(sizes("channels", channels), start=1):
        pool = (min(2, height), min(2, width))  # one pixel stays one pixel
        after = scaled(after, share)
        steps[f"conv{number}"] = convolution(share, scale, before, after, 3, padding=1)
        if norm:
            steps[f"bn{number}"] = nn.BatchNorm2d(after)
        steps[f"relu{number}"] = nn.ReLU()
        steps[f"pool{number}"] = nn.MaxPool2d(pool)
        before, height, width = after, height // pool[0], width // pool[1]
    steps["flatten"] = nn.Flatten()
    steps["fc"] = nn.Linear(before * height * width, classes)
    return nn.Sequential(steps)


def cofed_cnn(number: int, input_shape: Sequence[int], classes: int) -> nn.Module:
    """One of the ten CNNs in CoFED's Table 1.

    Args:
        number: its number there, from 1 to 10.
        input_shape: channels, height and width of an image.
        classes: how many logits it puts out.
    """
    return cnn(input_shape, classes, channels=TABLE_1[one_of("number", number, TABLE_1)])


def random_cnn(input_shape: Sequence[int], classes: int, seed: int | None = None) -> nn.Module:
    """A CNN as CoFED draws them (section 5.1): 2 or 3 layers, the channels of each from that layer's in Table 1.

    Args:
        input_shape: channels, height and width of an image.
        classes: how many logits it puts out.
        seed: decides the layers, not the weights; by default torch's own random numbers decide both.
    """
    source = None if seed is None else generator(seed, "random cnn")

    def draw(choices: Sequence[int]) -> int:
        return choices[int(torch.randint(len(choices), (), generator=source, device="cpu"))]

    seen = [sorted({row[layer] for row in TABLE_1.values() if layer < len(row)}) for layer in range(3)]
    return cnn(input_shape, classes, channels=[draw(choices) for choices in seen[: draw((2, 3))]])
