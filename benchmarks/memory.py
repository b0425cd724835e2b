"""The most memory a process and its children have held so far."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path


def peak_memory() -> int:
    """Bytes: the sum of each process's own peak. What processes share counts in each, so this is never too low.

    Children that have ended are not counted. Where the system does not tell about children, only this process is.
    """
    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # Not by getrusage: there a process starts with the peak of the one that started it.
    return sum(_high_water(process) for process in (os.getpid(), *_descendants(os.getpid())))


def _descendants(process: int) -> list[int]:
    found = []
    for told in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(word) for word in told.read_text().split()]
        except OSError:  # a thread that has ended meanwhile
            continue
        found += [each for child in children for each in (child, *_descendants(child))]
    return found


def _high_water(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:  # a child that has ended meanwhile
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
