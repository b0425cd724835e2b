"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

SET_PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG of Linux's ``prctl``."""


def ending_with_parent(by: signal.Signals) -> Callable[[], object]:
    """A function for a process to call right after it was forked: Linux then ends it when its parent is killed.

    Elsewhere the function does nothing. The C library is loaded here, since that is not safe in the child.

    Args:
        by: the signal that ends it.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(SET_PARENT_DEATH_SIGNAL, by)
