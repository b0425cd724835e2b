"""Who takes long to answer, beside the others and beside the time that it has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import inf
from statistics import median

SLOW_AFTER = 30.0
"""Seconds after which somebody may be called slow."""


@dataclass
class SlowAnswers:
    """Tells once of each who is slow: it takes twice what most of the others took, or half of the time that it has.

    Args:
        timeouts: how many seconds each may take, by name.
        took: how many seconds those took who have answered; at first none.
    """

    timeouts: Mapping[str, float]
    took: list[float] = field(default_factory=list)
    _notified: set[str] = field(default_factory=set)

    def among(self, waiting: Collection[str], waited: float) -> list[str]:
        """Who of those that have been waited for since the beginning is slow by now, and was not told of."""
        most_have_answered = len(self.took) > len(waiting)
        usual = median(self.took) if most_have_answered else inf
        slow = [
            name
            for name in waiting
            if name not in self._notified and waited > max(SLOW_AFTER, min(2 * usual, self.timeouts[name] / 2))
        ]
        self._notified.update(slow)
        return slow
