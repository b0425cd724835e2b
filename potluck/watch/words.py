"""What a view says in words and small pictures: for the terminal, and for a browser."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"
STATES = {
    "waiting": "waiting",
    "playing": "playing",
    "ended": "ended",
    "interrupted": "stopped",
    "failed": "failed",
    "lost": "gone",
}
"""What a state is called."""


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """Values as a line of bars, from the lowest to the highest of them; of many, the mean of those that share one."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [round(place * len(values) / count) for place in range(count + 1)]
    shown = [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]
    least, most = min(shown), max(shown)
    if most == least:
        return BARS[len(BARS) // 2] * count
    return "".join(BARS[round((value - least) / (most - least) * (len(BARS) - 1))] for value in shown)


def duration(seconds: float | None) -> str:
    """A time for people: 42 s, 3 min 05 s, 2 h 10 min, 3 d 4 h; a dash for none."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def value(number: float | None, share: bool) -> str:
    """A value of a metric."""
    if number is None:
        return "–"
    return f"{100 * number:.2f}%" if share else f"{number:.4g}"
