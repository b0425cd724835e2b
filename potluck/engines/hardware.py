"""The hardware: devices by name, the precision that networks compute in, and the memory there is."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import torch
import torch.nn.functional as F
from pydantic import AfterValidator
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from potluck.core.errors import SettingsError, nearest


def pick_device(name: str) -> torch.device:
    """The torch device of that name. "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(f"Device {name!r} cannot be used here: {error}") from error
    return device


def _usable(name: str) -> str:
    pick_device(name)
    return name


DeviceName = Annotated[str, AfterValidator(_usable)]
"""In a file: the name of a device that can be used here."""


Precision = Literal["torch", "float32", "bfloat16"]
"""``torch``: what PyTorch does by itself, which on recent GPUs is TF32 in convolutions and float32 elsewhere.
``float32``: float32 everywhere. ``bfloat16``: convolutions and matrix products of float32 networks in bfloat16."""

IN_BFLOAT16 = {
    *(torch.conv1d, torch.conv2d, torch.conv3d),
    *(torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d),
    *(F.linear, F.bilinear, F.scaled_dot_product_attention, F.multi_head_attention_forward, torch.einsum),
    *(torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.Tensor.__rmatmul__),
    *(torch.mm, torch.Tensor.mm, torch.addmm, torch.Tensor.addmm),
    *(torch.bmm, torch.Tensor.bmm, torch.baddbmm, torch.Tensor.baddbmm),
}
"""Convolutions, and what multiplies matrices; not recurrent layers, whose memory would be rounded at every step."""

WITH_BIAS = {F.linear: 0, torch.conv1d: 1, torch.conv2d: 2, torch.conv3d: 3}
WITH_BIAS |= {torch.conv_transpose1d: 1, torch.conv_transpose2d: 2, torch.conv_transpose3d: 3}
"""Which of them take a bias as their third argument, and how many axes come after its own."""


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
        if func not in IN_BFLOAT16:
            return func(*args, **(kwargs or {}))
        bias, args, kwargs = _without_bias(func, args, kwargs or {})
        args, kwargs = tree_map(_shortened, (args, kwargs))
        output = tree_map(_lengthened, func(*args, **kwargs))
        return output if bias is None else output + bias.reshape(-1, *[1] * WITH_BIAS[func])


def _without_bias(func: Any, args: Any, kwargs: Any) -> tuple[Tensor | None, Any, Any]:
    """A bias apart from the other arguments, to be added in float32.

    A layer alone adds it before the sum is rounded, a stack after: they would not agree.
    """
    found = args[2] if len(args) > 2 else kwargs.get("bias")
    if func not in WITH_BIAS or found is None or found.dtype != torch.float32:
        return None, args, kwargs
    others = args if len(args) < 3 else (*args[:2], None, *args[3:])
    return found, others, {name: value for name, value in kwargs.items() if name != "bias"}


def _lengthened(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, Tensor) and leaf.dtype == torch.bfloat16 else leaf


def _shortened(leaf: Any) -> Any:
    return leaf.bfloat16() if isinstance(leaf, Tensor) and leaf.dtype == torch.float32 else leaf


def free_memory(device: torch.device) -> int:
    """How many bytes are free on a device; on a CPU, what the system says is available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return total_memory(device)


def total_memory(device: torch.device) -> int:
    """How many bytes a device has."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


KEPT_BYTES = 2**30
"""Up to how many bytes: blocks below this are cut from memory that the process has, and so much of it stays unused."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The names of glibc's ``mallopt`` for both."""


@cache
def keep_freed_memory() -> None:
    """Has glibc keep what is freed; elsewhere nothing changes.

    A step over a stack makes gradients of many megabytes and frees them. By default glibc returns such blocks to the
    system at once and asks for them anew at the next step, and the system clears every page of them each time.

    This is for the whole process and until it ends, so no engine does it by itself: whoever owns the process asks.
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(TRIM_THRESHOLD, KEPT_BYTES)
        set_option(MMAP_THRESHOLD, KEPT_BYTES)


def out_of_memory(error: BaseException) -> bool:
    """Whether it was memory that failed; on a CPU, and inside of CUDA's libraries, that is said only in words."""
    text = str(error)
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "allocate memory" in text
        or "CUDA error: out of memory" in text
    )


def let_go(error: BaseException) -> None:
    """Drops the frames that an error came through: they would keep what there was no room for.

    Emptying them would not do: a frame keeps its function, and a function all that it closes over.
    """
    at: BaseException | None = error
    while at is not None:
        at.__traceback__ = None
        at = at.__context__
