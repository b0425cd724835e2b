"""Processes: which is which; those that do not outlive the one that started them; folders that one has for itself."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from potluck.core.errors import SettingsError

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


def started_at(pid: int) -> str | None:
    """When a process began, in a form of the system's own: a number that comes again is another process's.

    None where there is no such process, or the system does not tell.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[19]  # the name before it may hold anything


def is_held(path: Path) -> bool:
    """Whether another process holds a lock that ``held_alone`` gave it."""
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def held_alone(path: Path, otherwise: str) -> BaseFileLock:
    """A lock that this process holds from now on, unless another one does: then a SettingsError with these words."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise SettingsError(otherwise) from error
    return lock
