"""Timing: ways to do the same thing take turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

Way = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Seconds of every time after warming up; the very first one apart, since it also prepares things."""

    first: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)


def in_turns(ways: Mapping[str, Way], repeats: int, warm_up: int = 1) -> dict[str, Timing]:
    """Times all ways one after the other, ``repeats`` times over, after ``warm_up`` times that do not count."""
    first = {name: _timed(way) for name, way in ways.items()}
    for _ in range(warm_up - 1):
        for way in ways.values():
            way()
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            found[name].append(_timed(way))
    return {name: Timing(first[name], tuple(seconds)) for name, seconds in found.items()}


def ratios(slower: Sequence[float], faster: Sequence[float]) -> list[float]:
    """How many times as fast, turn by turn: what disturbed one turn disturbs one ratio."""
    return [slow / fast for slow, fast in zip(slower, faster, strict=True)]


def _timed(way: Way) -> float:
    _wait()
    began = time.perf_counter()
    way()
    _wait()
    return time.perf_counter() - began


def _wait() -> None:
    """A GPU works on after Python has gone on."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
