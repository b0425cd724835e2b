"""The precision that networks compute in. Weights, optimizers and everything that travels keep their own type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from potluck.core.errors import SettingsError, nearest

Precision = Literal["torch", "float32", "bfloat16"]
"""``torch``: what PyTorch does by itself, which on recent GPUs is TF32 in convolutions and float32 elsewhere.
``float32``: float32 everywhere. ``bfloat16``: convolutions and matrix products of float32 networks in bfloat16."""

HEAVY = {torch.conv1d, torch.conv2d, torch.conv3d, F.linear, torch.matmul, torch.bmm, torch.baddbmm}


def check_precision(name: str) -> None:
    """Raises SettingsError unless there is such a precision."""
    if name not in get_args(Precision):
        raise SettingsError(f"There is no precision {name!r}.{nearest(name, get_args(Precision))}")


@contextmanager
def computing_in(precision: str) -> Iterator[None]:
    """Everything inside computes in that precision."""
    if precision == "torch":
        yield
    elif precision == "bfloat16":
        with BFloat16():
            yield
    else:
        backends: list[Any] = [torch.backends.cudnn, torch.backends.cuda.matmul]
        before = [backend.allow_tf32 for backend in backends]
        try:
            for backend in backends:
                backend.allow_tf32 = False
            yield
        finally:
            for backend, allowed in zip(backends, before, strict=True):
                backend.allow_tf32 = allowed


class BFloat16(TorchFunctionMode):
    """Heavy functions read float32 as bfloat16 and give float32 back. Unlike autocast it can be stacked."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in HEAVY:
            return func(*args, **(kwargs or {}))
        args, kwargs = tree_map(_shortened, (args, kwargs or {}))
        output = func(*args, **kwargs)
        return output.float() if isinstance(output, Tensor) and output.dtype == torch.bfloat16 else output


def _shortened(leaf: Any) -> Any:
    return leaf.bfloat16() if isinstance(leaf, Tensor) and leaf.dtype == torch.float32 else leaf
