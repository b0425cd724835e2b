"""HtFLlib's family of eight, "HtFE-img-8": networks of every size, whose heads all read equally many features."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from potluck.core.errors import ModelError, how_to_install
from potluck.models.checks import image_shape, one_of, sizes
from potluck.models.resnet import body, start

SMALLEST = 16
"""How many pixels an image has at least: FedAvg's network takes two convolutions of 5×5 and two poolings."""


def htfe(input_shape: Sequence[int], classes: int, member: str = "resnet18", features: int = 512) -> nn.Module:
    """A network of HtFLlib's family of eight; GoogLeNet and MobileNetV2 are torchvision's, and need the extra `vision`.

    What a network makes of an image is averaged to so many features, which its last layer reads: so prototypes and
    heads fit all eight. ``vary = { member = ["cnn", "googlenet", …] }`` hands them out in a run file.

    Args:
        input_shape: channels, height and width of an image.
        classes: how many logits it puts out.
        member: "cnn" (FedAvg's), "googlenet", "mobilenet_v2", "resnet18" (the default), "resnet34", "resnet50",
            "resnet101" or "resnet152".
        features: how many features the last layer reads; by default 512.
    """
    shape = image_shape("htfe", input_shape, SMALLEST)
    sizes("features", [features])
    return nn.Sequential(
        OrderedDict(
            base=MEMBERS[one_of("member", member, MEMBERS)](shape),
            pool=nn.AdaptiveAvgPool1d(features),
            head=nn.Linear(features, classes),
        )
    )


def fedavg_cnn(shape: tuple[int, int, int]) -> nn.Module:
    """McMahan et al.'s network, without its last layer: two 5×5 convolutions and 512 units; no padding."""
    channels, height, width = shape
    left = [((length - 4) // 2 - 4) // 2 for length in (height, width)]
    steps: dict[str, nn.Module] = {
        "conv1": nn.Conv2d(channels, 32, 5),
        "relu1": nn.ReLU(),
        "pool1": nn.MaxPool2d(2),
        "conv2": nn.Conv2d(32, 64, 5),
        "relu2": nn.ReLU(),
        "pool2": nn.MaxPool2d(2),
        "flatten": nn.Flatten(),
        "fc1": nn.Linear(64 * left[0] * left[1], 512),
        "relu3": nn.ReLU(),
    }
    return nn.Sequential(OrderedDict(steps))


def resnet_body(depth: int, shape: tuple[int, int, int]) -> nn.Module:
    """A ResNet without its last layer."""
    steps, _ = body(depth, shape, "standard", 64)
    network = nn.Sequential(OrderedDict({**steps, "avgpool": nn.AdaptiveAvgPool2d(1), "flatten": nn.Flatten()}))
    start(network)
    return network


def of_torchvision(name: str, last: str, shape: tuple[int, int, int], **settings: Any) -> nn.Module:
    """A network of torchvision's, with weights drawn at random and without its last layer, whose name is ``last``."""
    try:
        models = importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError) as error:  # one that was built for another torch fails in its own ways
        raise ModelError(f"{name} needs torchvision: {how_to_install('vision')}") from error
    network: nn.Module = getattr(models, name)(weights=None, **settings)
    setattr(network, last, nn.Identity())
    for layer in network.modules():
        if getattr(layer, "inplace", False):
            vars(layer)["inplace"] = False  # what is changed in place cannot be stacked
    if shape[0] != 3:
        _read(network, shape[0])
    return network


def _read(network: nn.Module, channels: int) -> None:
    """Has the first convolution read so many channels."""
    path, first = next((path, layer) for path, layer in network.named_modules() if isinstance(layer, nn.Conv2d))
    settings = {name: getattr(first, name) for name in ("kernel_size", "stride", "padding")}
    other = nn.Conv2d(channels, first.out_channels, bias=first.bias is not None, **settings)
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, other)


MEMBERS: Mapping[str, Callable[[tuple[int, int, int]], nn.Module]] = {
    "cnn": fedavg_cnn,
    "googlenet": partial(of_torchvision, "googlenet", "fc", aux_logits=False, init_weights=True),
    "mobilenet_v2": partial(of_torchvision, "mobilenet_v2", "classifier"),
    **{f"resnet{depth}": partial(resnet_body, depth) for depth in (18, 34, 50, 101, 152)},
}
"""Each without its last layer, by name."""
