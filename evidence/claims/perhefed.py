"""The claims of PerHeFed's page."""

from __future__ import annotations

import torch
from torch import nn

from evidence.claims.kinds import Claims, Value, claim, difference, every, gain, sign, within
from evidence.counts import CLASSES, SHAPE
from evidence.images import narrow
from evidence.outcomes import Results
from potluck.learners.structure import convolutions
from potluck.models import resnet

P = "perhefed_cifar."


def _perhefed(one: str, other: str, prefix: str = "") -> Value:
    return difference(f"perhefed_cifar.{prefix}{one}", f"perhefed_cifar.{prefix}{other}")


def _shortcuts(network: nn.Module) -> int:
    """Weights of the convolutions that PerHeFed leaves at home."""
    shared = set(convolutions(network))
    every = {path: layer for path, layer in network.named_modules() if isinstance(layer, nn.Conv2d)}
    return sum(layer.weight.numel() for path, layer in every.items() if path not in shared)


def _network(small: bool) -> nn.Module:
    with torch.device("meta"):
        return narrow(10, SHAPE, CLASSES) if small else resnet(34, SHAPE, CLASSES)


def _at_home(small: bool) -> Value:
    return lambda results: f"{_shortcuts(_network(small)):,}"


def _classifier(small: bool) -> Value:
    return lambda results: f"{sum(entry.numel() for entry in _network(small).get_submodule('fc').parameters()):,}"


def _largest_layer(results: Results) -> str:
    network = _network(False)
    sizes = [network.get_submodule(path).weight.numel() for path in convolutions(network)]  # type: ignore[operator]
    return f"{max(sizes) / min(sizes):.0f}"


CLAIMS = Claims(
    numbers=[
        claim("FedAvg gains {} points", _perhefed("fedavg", "local")),
        claim("all convolutions gains {}; four", _perhefed("all-same-start", "local")),
        claim("at home: {} weights in the", _at_home(True)),
        claim("beside {} of the classifier", _classifier(True)),
        claim("and {} beside {} in ResNet34", _at_home(False), _classifier(False)),
        claim("gains {} points with Fashion-MNIST", _perhefed("all-same-start", "local", "narrow-")),
        claim("and {} with CIFAR-10; with starts", _perhefed("all-same-start", "local", "narrow-cifar-")),
        claim(
            "one start gains {} with Fashion-MNIST, and {} if everybody",
            *(_perhefed(f"{one}-same-start", "local", "narrow-") for one in ("half", "same-half")),
        ),
        claim("BatchNorm is {} above", _perhefed("fedavg-own-norms", "all-same-start-fresh", "narrow-cifar-")),
        claim("its own gains {} points over", _perhefed("all", "local", "narrow-long-")),
        claim("still {} points from one start", _perhefed("all", "all-same-start", "narrow-long-")),
        claim("by a factor of up to {})", _largest_layer),
    ],
    words=[
        (
            "Sharing all convolutions is not told apart from Local, sharing half of them is below it",
            every(sign(f"{P}all", f"{P}local"), sign(f"{P}half", f"{P}local", None, -1)),
        ),
        ("rounds earlier it was not told apart from Local", sign(f"{P}all-same-start", f"{P}local", (16, 16))),
        (
            "with starts of their own it is not told apart from Local",
            every(sign(f"{P}narrow-all", f"{P}narrow-local"), sign(f"{P}narrow-cifar-all", f"{P}narrow-cifar-local")),
        ),
        (
            "A new Adam every round is not told apart from one that is kept",
            every(
                sign(f"{P}narrow-all-same-start-fresh", f"{P}narrow-all-same-start"),
                sign(f"{P}narrow-cifar-all-same-start-fresh", f"{P}narrow-cifar-all-same-start"),
            ),
        ),
        (
            "instead of before takes less than a point away",
            every(*(within(-1, gain(f"{P}narrow-{one}-trained", f"{P}narrow-{one}"), 0) for one in ("all", "half"))),
        ),
        ("With half of the layers it shows no gain", sign(f"{P}narrow-long-half", f"{P}narrow-long-local")),
    ],
    given="1e-4 1e-3 0.33 0.42 1 3 5 10 20 61.2 64 75.4 200 256 2,000 50,000",
)
