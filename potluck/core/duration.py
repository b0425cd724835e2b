"""Spans of time for people, such as 1 h 5 min; and how long the rest of some work takes."""

from __future__ import annotations

import time
from collections.abc import Callable

UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Seconds of each unit, the largest first."""


def readable_duration(seconds: float) -> str:
    """A span of time in its two largest units, e.g. 2 d 3 h or 1 min 5 s; below ten seconds with a digit."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    left, parts = round(seconds), list[str]()
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


class Pace:
    """How long the rest of some work takes, by how long it has taken since it was first asked.

    Args:
        clock: seconds since some time or other; by default ``time.monotonic``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[int, float] | None = None

    def seconds_left(self, done: int, in_all: int) -> float | None:
        """For so much of the work that is left; None as long as nobody knows."""
        now = self._clock()
        if self._first is None:
            self._first = done, now
        first, began = self._first
        return None if done <= first else (now - began) / (done - first) * (in_all - done)

    def in_words(self, done: int, in_all: int) -> str:
        """The same for people, to end a line with; empty as long as nobody knows, and when nothing is left."""
        left = self.seconds_left(done, in_all)
        return "" if not left else f"; about {readable_duration(left)} left"
