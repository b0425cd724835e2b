"""One normalising transform in the ten ways in which people write it, and what a round costs with each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MEAN, DEVIATION = 0.1307, 0.3081
"""Of MNIST's pictures."""

MEANS, DEVIATIONS = torch.tensor([MEAN]), torch.tensor([DEVIATION])
NUMPY_MEAN, NUMPY_DEVIATION = np.float32(MEAN), np.float32(DEVIATION)

Transform = Callable[[Any], Any]


def with_floats(x: Tensor) -> Tensor:
    """Numbers of Python's."""
    return (x - MEAN) / DEVIATION


def with_tensors(x: Tensor) -> Tensor:
    """Tensors that are brought to where the batch is."""
    return (x - MEANS.to(x.device)) / DEVIATIONS.to(x.device)


def with_as_tensor(x: Tensor) -> Tensor:
    """Tensors that are made for each batch, as torchvision's ``normalize`` does."""
    mean = torch.as_tensor([MEAN], dtype=x.dtype, device=x.device)
    deviation = torch.as_tensor([DEVIATION], dtype=x.dtype, device=x.device)
    return (x - mean) / deviation


def with_numpy(x: Tensor) -> Tensor:
    """Numbers of numpy's."""
    return (x - float(NUMPY_MEAN)) / float(NUMPY_DEVIATION)


def normalised(x: Tensor, mean: float, deviation: float) -> Tensor:
    """What is given its numbers by somebody else."""
    return (x - mean) / deviation


class Compose:
    """One function after the other.

    Args:
        functions: the functions.
    """

    def __init__(self, functions: Sequence[Transform]) -> None:
        self.functions = list(functions)

    def __call__(self, x: Any) -> Any:
        for function in self.functions:
            x = function(x)
        return x


class Standardiser:
    """A class that is called.

    Args:
        mean: what is taken away.
        deviation: what is divided by.
    """

    def __init__(self, mean: float, deviation: float) -> None:
        self.mean, self.deviation = mean, deviation

    def __call__(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


class Centred:
    """A step of a longer way.

    Args:
        mean: what is taken away.
    """

    def __init__(self, mean: float) -> None:
        self.mean = mean

    def __call__(self, x: Tensor) -> Tensor:
        return x - self.mean


class Scaled:
    """Another one, with a tensor of its own.

    Args:
        deviation: what is divided by.
    """

    def __init__(self, deviation: float) -> None:
        self.deviation = torch.tensor(deviation)

    def __call__(self, x: Tensor) -> Tensor:
        return x / self.deviation.to(x.device)


class Normaliser(nn.Module):
    """A module with buffers.

    Args:
        mean: what is taken away.
        deviation: what is divided by.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: float, deviation: float) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("deviation", torch.tensor(deviation))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean.to(x.device)) / self.deviation.to(x.device)


class LikeV2(nn.Module):
    """A module that is called as those of ``torchvision.transforms.v2`` are: with any number of inputs.

    Args:
        mean: what is taken away.
        deviation: what is divided by.
    """

    def __init__(self, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.mean, self.deviation = list(mean), list(deviation)

    def forward(self, *inputs: Any) -> Any:
        found = [self.transform(x) for x in inputs]
        return found[0] if len(found) == 1 else tuple(found)

    def transform(self, x: Tensor) -> Tensor:
        """One input."""
        mean = torch.as_tensor(self.mean, dtype=x.dtype, device=x.device)
        deviation = torch.as_tensor(self.deviation, dtype=x.dtype, device=x.device)
        return x.sub(mean).div_(deviation)


WAYS: Mapping[str, Callable[[], Transform]] = {
    "floats": lambda: with_floats,
    "tensors": lambda: with_tensors,
    "as_tensor": lambda: with_as_tensor,
    "numpy": lambda: with_numpy,
    "Compose": lambda: Compose([Centred(MEAN), Scaled(DEVIATION)]),
    "module": lambda: Normaliser(MEAN, DEVIATION),
    "lambda": lambda: lambda x: (x - MEAN) / DEVIATION,
    "partial": lambda: partial(normalised, mean=MEAN, deviation=DEVIATION),
    "v2": lambda: LikeV2([MEAN], [DEVIATION]),
    "class": lambda: Standardiser(MEAN, DEVIATION),
}
"""Each makes one of a participant's own."""
