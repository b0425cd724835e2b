"""Processes that do not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

SET_PARENT_DEATH_SIGNAL = 1
"""The name of Linux's ``prctl`` for it."""


def ending_with_parent(by: signal.Signals) -> Callable[[], object]:
    """What a process calls that has just been forked: Linux then ends it by a signal when its parent is killed.

    Elsewhere nothing happens. The library is looked up here, since a child had better not.
    """
    if not sys.platform.startswith("linux"):
        return lambda: None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(SET_PARENT_DEATH_SIGNAL, by)
