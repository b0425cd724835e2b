"""Memory: how what was freed is kept for the next step, and what to do when there is not enough."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

import torch

KEPT = 2**30
"""Up to how many bytes: blocks below this are cut from memory that the process has, and so much of it stays unused."""

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The names of glibc's ``mallopt`` for both."""


@cache
def keep_freed_memory() -> None:
    """Has glibc keep what is freed; elsewhere nothing changes.

    A step over a stack makes gradients of many megabytes and frees them. By default glibc returns such blocks to the
    system at once and asks for them anew at the next step, and the system clears every page of them each time.
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(TRIM_THRESHOLD, KEPT)
        set_option(MMAP_THRESHOLD, KEPT)


def out_of_memory(error: BaseException) -> bool:
    """Whether it was memory that failed; on a CPU, and inside of CUDA's libraries, that is told only in words."""
    told = str(error)
    return (
        isinstance(error, torch.OutOfMemoryError | MemoryError)
        or "allocate memory" in told
        or "CUDA error: out of memory" in told
    )


def let_go(error: BaseException) -> None:
    """Drops the frames that an error came through: they would keep what there was no room for.

    Emptying them would not do: a frame keeps its function, and a function all that it closes over.
    """
    at: BaseException | None = error
    while at is not None:
        at.__traceback__ = None
        at = at.__context__
