"""Layers of many networks at once on a GPU: those that stack badly by themselves go ways of their own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from potluck.engines.batched.kernels.batch_norm import batch_norm
from potluck.engines.batched.kernels.convolution import convolution

FEW = 8
"""Up to how many networks torch's layers are good enough to answer a question, and to take a step the kernels that
libraries expect to be fastest: to try them all takes longer than the rest of a capture."""


def ours_pay(device: torch.device, count: int) -> bool:
    """Whether to ask so many networks something is better done with layers of ours. To train them always is."""
    return device.type == "cuda" and count > FEW


def stacked_layers(ours: bool) -> AbstractContextManager[Any]:
    """Inside, layers are stacked in our ways, or in torch's."""
    return StackedLayers() if ours else nullcontext()


class StackedLayers(TorchFunctionMode):
    """While it is on, convolutions, BatchNorm over maps and the mean over whole maps are ours."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.conv2d and args[0].ndim == 4:
            return convolution(*args, **(kwargs or {}))
        if func is F.batch_norm and args[0].ndim == 4:
            return batch_norm(*args, **(kwargs or {}))
        if func is F.adaptive_avg_pool2d and args[1:] in [(1,), ((1, 1),)]:
            return args[0].mean(dim=(-2, -1), keepdim=True)
        return func(*args, **(kwargs or {}))
