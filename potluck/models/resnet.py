"""Residual networks (He et al., 2016); layers' names, shapes and initial weights as in torchvision."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import ClassVar

from torch import Tensor, nn

from potluck.models.checks import image_shape, one_of, sizes
from potluck.models.stem import Stem, first_layers
from potluck.models.width import as_rate, convolution, scaled

Convolve = Callable[..., nn.Conv2d]
"""Makes a convolution that keeps height and width from channels, width, kernel and stride."""


class ResNet(nn.Sequential):
    """A sequence of named steps: conv1, bn1, relu, maxpool, layer1 … layer4, avgpool, flatten, fc."""


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut.

    Args:
        channels: how many come in.
        width: how many go out.
        stride: the stride of the first convolution.
        convolve: makes a convolution.
    """

    expansion: ClassVar[int] = 1

    def __init__(self, channels: int, width: int, stride: int, convolve: Convolve) -> None:
        super().__init__()
        self.conv1 = convolve(channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolve(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = shortcut(channels, width, stride, convolve)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relu(self.bn1(self.conv1(x)))
        output: Tensor = self.relu(self.bn2(self.conv2(inner)) + self.downsample(x))
        return output


class Bottleneck(nn.Module):
    """A 3×3 convolution between two of 1×1, beside a shortcut; the 3×3 one takes the stride.

    Args:
        channels: how many come in.
        width: how many the 3×3 convolution puts out; four times as many go out.
        stride: its stride.
        convolve: makes a convolution.
    """

    expansion: ClassVar[int] = 4

    def __init__(self, channels: int, width: int, stride: int, convolve: Convolve) -> None:
        super().__init__()
        self.conv1 = convolve(channels, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolve(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = convolve(width, width * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU()
        self.downsample = shortcut(channels, width * self.expansion, stride, convolve)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relu(self.bn1(self.conv1(x)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        output: Tensor = self.relu(self.bn3(self.conv3(inner)) + self.downsample(x))
        return output


DEPTHS: dict[int, tuple[type[BasicBlock | Bottleneck], tuple[int, int, int, int]]] = {
    10: (BasicBlock, (1, 1, 1, 1)),
    14: (BasicBlock, (1, 1, 2, 2)),
    18: (BasicBlock, (2, 2, 2, 2)),
    22: (BasicBlock, (2, 2, 3, 3)),
    26: (BasicBlock, (3, 3, 3, 3)),
    34: (BasicBlock, (3, 4, 6, 3)),
    50: (Bottleneck, (3, 4, 6, 3)),
    101: (Bottleneck, (3, 4, 23, 3)),
    152: (Bottleneck, (3, 8, 36, 3)),
}
"""The blocks of each group. 10, 14, 22 and 26 are FedIN's (section 5.1)."""


def resnet(
    depth: int,
    input_shape: Sequence[int],
    classes: int,
    stem: Stem = "standard",
    width: int = 64,
    rate: float | str = 1.0,
    scale: bool = False,
) -> ResNet:
    """A ResNet (He et al., 2016), as in FedIN (section 5.1), DraftFed (section IV) and PerHeFed (appendix A).

    Args:
        depth: 10, 14, 18, 22, 26, 34, 50, 101 or 152.
        input_shape: channels, height and width of an image.
        classes: how many logits it puts out.
        stem: "standard" (the default), or "small" for small images: a 3×3 convolution that keeps height and width, and
            no max-pooling.
        width: how many filters the first group of blocks has; each further group has twice as many as the one before;
            by default 64.
        rate: the share of all filters that it has, rounded up, or HeteroFL's level "a" to "e"; by default 1.
        scale: whether a narrower network's features are scaled up, as HeteroFL does; by default False.
    """
    steps, features = body(depth, input_shape, stem, width, rate, scale)
    steps |= {"avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten(), "fc": nn.Linear(features[-1], classes)}
    network = ResNet(steps)
    start(network)
    return network


def body(
    depth: int, input_shape: Sequence[int], stem: Stem, width: int, rate: float | str = 1.0, scale: bool = False
) -> tuple[OrderedDict[str, nn.Module], list[int]]:
    """The steps of a ResNet without its classifier, and how many features each group of blocks puts out."""
    block, blocks = DEPTHS[one_of("depth", depth, DEPTHS)]
    channels, _, _ = image_shape(f"resnet{depth}", input_shape)
    sizes("width", [width])
    share, features = as_rate(rate), list[int]()
    before = scaled(width, share)

    def convolve(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Conv2d:
        return convolution(share, scale, channels, width, kernel, stride, padding=kernel // 2, bias=False)

    first = first_layers(stem, channels, before, share if scale else 1.0)
    steps = OrderedDict(zip(("conv1", "bn1", "relu", "maxpool"), first, strict=False))
    for stage, count in enumerate(blocks):
        filters = scaled(width * 2**stage, share)
        strides = [1 if stage == 0 else 2] + [1] * (count - 1)
        inputs = [before] + [filters * block.expansion] * (count - 1)
        steps[f"layer{stage + 1}"] = nn.Sequential(
            *(block(channels, filters, stride, convolve) for channels, stride in zip(inputs, strides, strict=True))
        )
        before = filters * block.expansion
        features.append(before)
    return steps, features


def start(network: nn.Module) -> None:
    """Draws the initial weights of all convolutions."""
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")


def shortcut(channels: int, width: int, stride: int, convolve: Convolve) -> nn.Module:
    """The input as it is, or projected where the block changes its shape."""
    if stride == 1 and channels == width:
        return nn.Identity()
    return nn.Sequential(convolve(channels, width, 1, stride), nn.BatchNorm2d(width))
