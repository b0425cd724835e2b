"""Engines: who carries the work out. One by one (serial), many at once (batched), or over a network.

An engine never names a method; a method never names an engine; the results agree.
"""

from __future__ import annotations

from potluck.core.errors import SettingsError, nearest
from potluck.engines.auto.autotune import Autotune
from potluck.engines.auto.engine import Auto
from potluck.engines.base import Engine
from potluck.engines.batched.engine import Batched
from potluck.engines.distributed.engine import Ray
from potluck.engines.dry_run import DryRun
from potluck.engines.hardware import DeviceName, check_precision, keep_freed_memory, pick_device
from potluck.engines.serial import Serial

__all__ = [
    "Auto",
    "Autotune",
    "Batched",
    "DeviceName",
    "DryRun",
    "Engine",
    "Ray",
    "Serial",
    "keep_freed_memory",
    "make_engine",
    "pick_device",
]


def make_engine(name: str, device: str, precision: str = "torch") -> Engine:
    """The engine of that name.

    "auto" stacks where that pays by a fixed rule, "autotune" by the clock, "batched" whatever can be stacked, "ray" in
    worker processes on this machine or on many.

    Args:
        name: the engine's name.
        device: what it computes on: "cpu", "cuda", or "auto" for the GPU if there is one.
        precision: what networks compute in; by default "torch", for what torch does by itself.
    """
    check_precision(precision)
    engines: dict[str, type[Engine]] = {
        "auto": Auto,
        "autotune": Autotune,
        "batched": Batched,
        "ray": Ray,
        "serial": Serial,
    }
    if name == "dry-run":  # not for results, so not among the names on offer
        return DryRun(pick_device(device), precision)
    if name not in engines:
        raise SettingsError(f"There is no engine {name!r}.{nearest(name, engines)}")
    return engines[name](pick_device(device), precision)
