"""How memory that was freed is kept for the next step, instead of going back to the system."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

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
