"""How to measure: turn by turn, so that what disturbs the machine disturbs all; and what machine it was, in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

Action = Callable[[], object]
"""What is timed."""

Clock = Callable[[], float]
"""Seconds since some time or other."""


@dataclass(frozen=True)
class Timing:
    """How long an action took, each time.

    Args:
        first: seconds of the very first time, which also prepares things.
        seconds: those of every time after warming up.
    """

    first: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)


def interleaved(
    actions: Mapping[str, Action], repeats: int, warm_up: int = 1, clock: Clock = time.perf_counter
) -> dict[str, Timing]:
    """Times all actions one after the other, ``repeats`` times over, after ``warm_up`` times that do not count.

    ``time.process_time`` as the clock counts what this process computes, whatever else the machine does.
    """
    first = {name: _timed(action, clock) for name, action in actions.items()}
    for _ in range(warm_up - 1):
        for action in actions.values():
            action()
    found: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            found[name].append(_timed(action, clock))
    return {name: Timing(first[name], tuple(seconds)) for name, seconds in found.items()}


def ratios(slower: Sequence[float], faster: Sequence[float]) -> list[float]:
    """How many times as fast, turn by turn: what disturbed one turn disturbs one ratio."""
    return [slow / fast for slow, fast in zip(slower, faster, strict=True)]


def machine_in_words(machine: dict[str, Any]) -> str:
    """One line for people."""
    gpu = f", {machine['gpu']}" if "gpu" in machine else ""
    return f"{machine['cpu']}, {machine['cores']} cores{gpu}, torch {machine['torch']}"


def busy_warning(machine: dict[str, Any]) -> str | None:
    """A warning, if something else was running: two threads beside another busy process can take many times as long."""
    load = machine.get("load_before", 0.0)
    if load <= 0.25 * machine["cores"]:
        return None
    return f"This machine was busy before (load {load} on {machine['cores']} cores): take no figure for granted."


def _timed(action: Action, clock: Clock) -> float:
    _wait_for_gpu()
    began = clock()
    action()
    _wait_for_gpu()
    return clock() - began


def _wait_for_gpu() -> None:
    """A GPU works on after Python has gone on."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
