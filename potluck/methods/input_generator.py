"""A network that makes inputs from noise: what DENSE's server trains, since it has no data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


def patient_adam(parameters: Iterable[Tensor], lr: float) -> torch.optim.Optimizer:
    """Adam with β1 = 0.5, as generators are trained."""
    return torch.optim.Adam(parameters, lr=lr, betas=(0.5, 0.999))


class InputGenerator(nn.Module):
    """Inputs from noise: a linear layer, then twice a convolution at twice the size; for what is no image, two layers.

    What goes into a BatchNorm layer has no bias, which would make no difference.

    Args:
        noise: how many numbers of noise.
        width: how many channels, or numbers, the hidden layers have.
        input_shape: the shape of one input.
        bounded: whether what is made lies between 0 and 1.
    """

    def __init__(self, noise: int, width: int, input_shape: Sequence[int], bounded: bool) -> None:
        super().__init__()
        self.shape = tuple(input_shape)
        last: nn.Module = nn.Sigmoid() if bounded else nn.Identity()
        if len(self.shape) != 3:
            layers = nn.Linear(noise, width, bias=False), nn.BatchNorm1d(width), nn.LeakyReLU(0.2)
            self.layers = nn.Sequential(*layers, nn.Linear(width, math.prod(self.shape)), last)
            return
        channels, *size = self.shape
        small = [math.ceil(length / 4) for length in size]
        self.layers = nn.Sequential(
            nn.Linear(noise, 2 * width * math.prod(small), bias=False),
            nn.Unflatten(1, (2 * width, *small)),
            nn.BatchNorm2d(2 * width),
            *_doubled(2 * width, 2 * width),
            *_doubled(2 * width, width),
            nn.Conv2d(width, channels, 3, padding=1),
            last,
        )

    def forward(self, noise: Tensor) -> Tensor:
        made: Tensor = self.layers(noise)
        if len(self.shape) == 3:
            return made[:, :, : self.shape[1], : self.shape[2]]
        return made.reshape(len(made), *self.shape)


def _doubled(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Upsample(scale_factor=2), convolution, nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)


class TrainedNoise(nn.Module):
    """A generator, and noise that is trained along with it: what goes in are the numbers of rows of noise.

    Args:
        generator: makes inputs from noise.
        rows: how many inputs are made at once.
        noise: how many numbers of noise an input is made of.
    """

    def __init__(self, generator: InputGenerator, rows: int, noise: int) -> None:
        super().__init__()
        self.generator, self.shape = generator, generator.shape
        self.noise = nn.Parameter(torch.zeros(rows, noise))

    def forward(self, rows: Tensor) -> Tensor:
        made: Tensor = self.generator(self.noise[rows])
        return made
