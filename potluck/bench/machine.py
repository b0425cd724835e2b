"""The machine a figure was measured on, in words."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch


def describe() -> dict[str, Any]:
    """What a reader must know to compare: processor, cores, memory, GPU, versions, how busy it was."""
    found: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_gib": _memory(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if torch.cuda.is_available():
        found |= {"gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    if hasattr(os, "getloadavg"):
        found["load_before"] = round(os.getloadavg()[0], 2)
    return found


def in_words(machine: dict[str, Any]) -> str:
    """One line for people."""
    gpu = f", {machine['gpu']}" if "gpu" in machine else ""
    return f"{machine['cpu']}, {machine['cores']} cores{gpu}, torch {machine['torch']}"


def busy(machine: dict[str, Any]) -> str | None:
    """A warning, if something else was running: two threads beside another busy process can take many times as long."""
    load = machine.get("load_before", 0.0)
    if load <= 0.25 * machine["cores"]:
        return None
    return f"This machine was busy before (load {load} on {machine['cores']} cores): take no figure for granted."


def _cores() -> int:
    """Those this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _cpu() -> str:
    told = Path("/proc/cpuinfo")
    if told.exists():
        for line in told.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> float | None:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
