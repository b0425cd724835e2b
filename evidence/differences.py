"""Differences between settings, paired over seeds, with the interval that the seeds allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from evidence.comparisons import markdown
from evidence.outcomes import ENOUGH, Outcome, Results, count, measured

CONFIDENCE = 0.95
Rounds = tuple[int, int]
"""From which round to which."""


def signed(value: float, digits: int = 1) -> str:
    """With its sign, and no −0.0."""
    text = f"{abs(value):.{digits}f}"
    if not float(text):
        return text
    return f"{'−' if value < 0 else '+'}{text}"


@dataclass(frozen=True)
class Difference:
    """One value for each seed that both settings were played under."""

    seeds: dict[int, float]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.seeds.values())))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of the mean; None below three seeds."""
        found = list(self.seeds.values())
        if len(found) < ENOUGH:
            return None
        half = t.ppf((1 + CONFIDENCE) / 2, len(found) - 1) * np.std(found, ddof=1) / np.sqrt(len(found))
        return self.mean - float(half), self.mean + float(half)

    @property
    def sign(self) -> int:
        """+1 or −1 where the whole interval is on one side of zero; else 0, and nothing is told apart."""
        if self.interval is None:
            return 0
        return int(self.interval[0] > 0) - int(self.interval[1] < 0)

    def text(self, digits: int = 1) -> str:
        """``+0.7 (+0.5 … +0.9)``, or what few runs give, with a word on how few they are."""
        if self.interval is None:
            return f"{self.each(digits)} ({count(len(self.seeds))})"
        low, high = self.interval
        return f"{signed(self.mean, digits)} ({signed(low, digits)} … {signed(high, digits)})"

    def each(self, digits: int = 1) -> str:
        """Seed by seed."""
        return ", ".join(signed(value, digits) for value in self.seeds.values())


def paired(results: Results, one: str, other: str, rounds: Rounds | None = None) -> Difference:
    """How many points ``one`` is above ``other``, each ``EXPERIMENT.SETTING``: in the last round that both measured, or
    on average over the rounds from ``rounds[0]`` to ``rounds[1]`` that both measured, if both got as far."""
    first, second = results.runs(one), results.runs(other)
    found = {seed: _points(first[seed], second[seed], rounds) for seed in sorted(first.keys() & second.keys())}
    return Difference({seed: value for seed, value in found.items() if value is not None})


def _points(one: Outcome, other: Outcome, rounds: Rounds | None) -> float | None:
    above = both(one, other)
    if rounds is None:
        return 100 * above[max(above)]
    chosen = [value for number, value in above.items() if rounds[0] <= number <= rounds[1]]
    return 100 * float(np.mean(chosen)) if chosen and max(above) >= rounds[1] else None


def both(one: Outcome, other: Outcome) -> dict[int, float]:
    """Round → how much the one is above the other, where both were measured."""
    first, second = measured(one), measured(other)
    return {number: score - second[number] for number, score in first.items() if number in second}


@dataclass(frozen=True)
class Pair:
    """A row of a table of differences: ``one`` minus ``other``."""

    title: str
    one: str
    other: str
    rounds: Rounds | None = None


def differences(results: Results, pairs: Iterable[Pair], digits: int = 1) -> str:
    """Each pair's mean with its interval, and every seed's value."""
    rows = []
    for pair in pairs:
        found = paired(results, pair.one, pair.other, pair.rounds)
        where = "the last" if pair.rounds is None else f"{pair.rounds[0]} to {pair.rounds[1]}"
        mean = found.text(digits) if found.interval else "–"
        rows.append([pair.title, where, mean, found.each(digits), count(len(found.seeds))])
    return markdown(["", "rounds", "points (95% interval)", "seed by seed", "seeds"], rows)
