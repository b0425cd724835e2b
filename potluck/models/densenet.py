"""Densely connected networks (Huang et al., 2017); layers' names, shapes and initial weights as in torchvision."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from potluck.models.checks import image_shape, one_of
from potluck.models.stem import Stem, first_layers

DEPTHS: dict[int, tuple[int, int, tuple[int, int, int, int]]] = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""Channels after the first convolution, channels that each layer adds, layers of each block."""


class DenseNet(nn.Sequential):
    """A sequence of named steps: features (conv0 … norm5), relu, avgpool, flatten, classifier."""


class DenseLayer(nn.Sequential):
    """Adds a few channels to those of its input.

    Args:
        channels: how many come in.
        growth: how many it adds.
    """

    def __init__(self, channels: int, growth: int) -> None:
        inner = 4 * growth
        steps: dict[str, nn.Module] = {
            "norm1": nn.BatchNorm2d(channels),
            "relu1": nn.ReLU(),
            "conv1": nn.Conv2d(channels, inner, 1, bias=False),
            "norm2": nn.BatchNorm2d(inner),
            "relu2": nn.ReLU(),
            "conv2": nn.Conv2d(inner, growth, 3, padding=1, bias=False),
        }
        super().__init__(OrderedDict(steps))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return torch.cat([x, added], dim=1)


def densenet(depth: int, input_shape: Sequence[int], classes: int, stem: Stem = "standard") -> DenseNet:
    """A DenseNet (Huang et al., 2017), as in DraftFed (section IV) and PerHeFed (appendix A).

    Args:
        depth: 121, 161, 169 or 201.
        input_shape: channels, height and width of an image.
        classes: how many logits it puts out.
        stem: "standard" (the default), or "small" for small images: a 3×3 convolution that keeps height and width, and
            no max-pooling.
    """
    width, growth, blocks = DEPTHS[one_of("depth", depth, DEPTHS)]
    smallest = 8 if stem == "small" else 29  # what three halvings, after the stem, leave a pixel of
    channels, _, _ = image_shape(f"densenet{depth} with the {stem} stem", input_shape, smallest)
    features = OrderedDict(zip(("conv0", "norm0", "relu0", "pool0"), first_layers(stem, channels, width), strict=False))
    for number, layers in enumerate(blocks, start=1):
        added = {f"denselayer{i + 1}": DenseLayer(width + i * growth, growth) for i in range(layers)}
        features[f"denseblock{number}"] = nn.Sequential(OrderedDict(added))
        width += layers * growth
        if number < len(blocks):
            features[f"transition{number}"] = transition(width)
            width //= 2
    features["norm5"] = nn.BatchNorm2d(width)
    steps: dict[str, nn.Module] = {
        "features": nn.Sequential(features),
        "relu": nn.ReLU(),
        "avgpool": nn.AdaptiveAvgPool2d(1),
        "flatten": nn.Flatten(),
        "classifier": nn.Linear(width, classes),
    }
    network = DenseNet(OrderedDict(steps))
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight)
        elif isinstance(layer, nn.Linear):
            nn.init.zeros_(layer.bias)
    return network


def transition(channels: int) -> nn.Module:
    """Halves channels, height and width."""
    steps: dict[str, nn.Module] = {
        "norm": nn.BatchNorm2d(channels),
        "relu": nn.ReLU(),
        "conv": nn.Conv2d(channels, channels // 2, 1, bias=False),
        "pool": nn.AvgPool2d(2),
    }
    return nn.Sequential(OrderedDict(steps))
