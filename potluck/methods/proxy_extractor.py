"""A small network that puts out what an input looks like: the extractor that pFedES's participants share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from potluck.core.errors import ModelError


def proxy_extractor(input_shape: Sequence[int], dtype: torch.dtype = torch.float32) -> nn.Module:
    """The paper's extractor, whose output has the shape of its input; of 443 parameters for images in colour."""
    layers: dict[int, Any] = {
        1: nn.Linear,
        2: partial(nn.Conv1d, kernel_size=3, padding=1),
        3: partial(nn.Conv2d, kernel_size=3, padding=1),
    }
    if isinstance(input_shape, Mapping) or len(input_shape) not in layers:
        raise ModelError(f"pFedES has no extractor for inputs of {input_shape}; give it one: PFedES(extractor=…).")
    layer, width = layers[len(input_shape)], input_shape[0]
    return nn.Sequential(layer(width, 8), nn.ReLU(), layer(8, width), nn.ReLU()).to(dtype)
