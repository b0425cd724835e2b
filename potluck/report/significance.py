"""Which differences are real: tests paired over seeds, and intervals from a bootstrap over seeds and participants.

The unit is the seed. The participants of one run share a server and mostly data from one source, so they are not
independent, and a test that counted them as such would find differences where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

LEVEL = 0.05
"""A difference is called real where chance alone would show one as large less often than this."""
DRAWS = 4000
"""How often the bootstrap draws."""
ENUMERATED = 13
"""Up to so many seeds all signs are tried where differences are tied."""
MANY = 4
"""From so many on, all are compared at once before any two are."""

ScoresOfSeeds = Mapping[int, Mapping[str, float]]
"""Seed → participant → value."""
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class PairDifference:
    """How much better one entry is than another, paired over seeds.

    Args:
        one: the entry that the differences are counted for.
        other: the entry it is compared with.
        by_seed: for each seed that both were played with, by how much the one is better.
        interval: where the mean difference lies, by a bootstrap; None with fewer than two seeds.
        p: how often chance alone shows such a difference, after Holm's correction; None where no test is possible.
    """

    one: str
    other: str
    by_seed: Mapping[int, float]
    interval: tuple[float, float] | None
    p: float | None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return float(np.mean(list(self.by_seed.values())))

    @property
    def real(self) -> bool:
        """Whether it is too large for chance."""
        return self.p is not None and self.p <= LEVEL


@dataclass(frozen=True)
class Ranking:
    """Four or more entries compared at once, by their ranks in each seed.

    Args:
        ranks: each entry's mean rank, 1 for the best.
        p: of Friedman's test, how often chance alone spreads ranks as far.
        critical: mean ranks that are further apart than this differ (Nemenyi).
        seeds: how many seeds were ranked.
    """

    ranks: Mapping[str, float]
    p: float
    critical: float
    seeds: int

    @property
    def alike(self) -> list[tuple[str, ...]]:
        """The largest groups of two or more whose ranks do not differ, from the best on."""
        names = sorted(self.ranks, key=lambda name: self.ranks[name])
        found: list[tuple[str, ...]] = []
        for start, first in enumerate(names):
            group = tuple(name for name in names[start:] if self.ranks[name] - self.ranks[first] <= self.critical)
            if len(group) > 1 and not any(set(group) <= set(larger) for larger in found):
                found.append(group)
        return found


@dataclass(frozen=True)
class Significance:
    """What can be said about the differences between entries.

    Args:
        pairs: every two entries, the better one first.
        seeds: how many seeds all of them were played with.
        needed: with how many seeds the test could tell each pair apart.
        ranking: all at once; None for fewer than four entries, or fewer than two seeds.
    """

    pairs: Sequence[PairDifference]
    seeds: int
    needed: int
    ranking: Ranking | None

    @property
    def possible(self) -> bool:
        """Whether there are seeds enough for anything to be said."""
        return self.seeds >= self.needed

    def of(self, one: str, other: str) -> PairDifference:
        """The difference between two entries, in the order in which it is listed."""
        return next(pair for pair in self.pairs if {pair.one, pair.other} == {one, other})

    @property
    def sentence(self) -> str:
        """What can be said, in a line."""
        if not self.pairs:
            return "There is nothing to compare."
        if not self.possible:
            these = "this pair" if len(self.pairs) == 1 else f"these {len(self.pairs)} pairs"
            return (
                f"With {self.seeds} seed{'s' * (self.seeds != 1)} nothing can be said about which differences are "
                f"real: the test could not tell {these} apart even if every seed agreed. "
                f"{self.needed} seeds would do."
            )
        real = sum(pair.real for pair in self.pairs)
        return (
            f"{real} of {len(self.pairs)} differences {'is' if real == 1 else 'are'} real at the level {LEVEL} "
            f"(Wilcoxon's signed-rank test, paired over {self.seeds} seeds, with Holm's correction)."
        )


def seeds_needed(pairs: int, level: float = LEVEL) -> int:
    """With how many seeds Wilcoxon's test can find a difference in the first of so many pairs, by Holm's correction.

    If all n seeds agree, the two-sided p is 2 / 2^n, and Holm's correction multiplies the smallest p by all pairs.
    """
    return max(2, math.ceil(math.log2(2 * max(1, pairs) / level)))


def compare_scores(scores: Mapping[str, ScoresOfSeeds], higher: bool = True) -> Significance:
    """Compares entries in pairs, and from four on all at once.

    Args:
        scores: entry → seed → participant → value.
        higher: whether more is better; by default True.
    """
    sign = 1.0 if higher else -1.0
    found: list[tuple[str, str, dict[int, Array]]] = []
    for one, other in combinations(scores, 2):
        above = differences(scores[one], scores[other], sign)
        if not above:
            continue
        if np.mean([part.mean() for part in above.values()]) < 0:
            one, other, above = other, one, {seed: -part for seed, part in above.items()}
        found.append((one, other, above))
    means = [{seed: float(part.mean()) for seed, part in above.items()} for _, _, above in found]
    corrected = holm([wilcoxon(list(by_seed.values())) for by_seed in means])
    pairs = [
        PairDifference(one, other, by_seed, bootstrap(list(above.values())), p)
        for (one, other, above), by_seed, p in zip(found, means, corrected, strict=True)
    ]
    shared = set.intersection(*(set(by_seed) for by_seed in scores.values())) if scores else set()
    seeds = min((len(pair.by_seed) for pair in pairs), default=len(shared))
    return Significance(pairs, seeds, seeds_needed(len(pairs)), friedman(scores, sorted(shared), sign))


def differences(one: ScoresOfSeeds, other: ScoresOfSeeds, sign: float = 1.0) -> dict[int, Array]:
    """Seed by seed, how far the one is above the other at each participant that both measured."""
    found = {}
    for seed in sorted(one.keys() & other.keys()):
        names = sorted(one[seed].keys() & other[seed].keys())
        if names:
            found[seed] = sign * np.array([one[seed][name] - other[seed][name] for name in names])
    return found


def wilcoxon(values: Sequence[float]) -> float | None:
    """The two-sided p of Wilcoxon's signed-rank test; None without a value that differs from 0."""
    if not any(values):
        return 1.0 if len(values) > 1 else None
    if len(values) < 2:
        return None
    table = np.round(values, 12)  # so that what is tied but for the last digit of a float is tied
    sizes = np.abs(table[table != 0])
    tied = len(np.unique(sizes)) < len(values)
    exact = stats.PermutationMethod() if tied and len(sizes) <= ENUMERATED else "auto"
    return float(stats.wilcoxon(table, method=exact).pvalue)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction: the smallest p times how many there are, the next one times one fewer, and so on."""
    known = sorted((p, index) for index, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    largest = 0.0
    for place, (p, index) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - place)))
        corrected[index] = largest
    return corrected


def bootstrap(differences: Sequence[Array], level: float = LEVEL) -> tuple[float, float] | None:
    """Where the mean lies: seeds are drawn again and again, and inside each of them participants."""
    if len(differences) < 2:
        return None
    random = np.random.default_rng(0)
    within = np.stack(
        [part[random.integers(len(part), size=(DRAWS, len(part)))].mean(axis=1) for part in differences], axis=1
    )
    size = (DRAWS, len(differences))
    # a seed that is drawn twice brings other participants the second time
    means = within[random.integers(DRAWS, size=size), random.integers(len(differences), size=size)].mean(axis=1)
    low, high = np.quantile(means, [level / 2, 1 - level / 2])
    return float(low), float(high)


def friedman(scores: Mapping[str, ScoresOfSeeds], seeds: Sequence[int], sign: float = 1.0) -> Ranking | None:
    """Friedman's test over the seeds that all entries were played with, and Nemenyi's critical difference."""
    if len(scores) < MANY or len(seeds) < 2:
        return None
    names = list(scores)
    table = np.array(
        [[sign * float(np.mean(list(scores[name][seed].values()))) for name in names] for seed in seeds]
    ).round(12)
    ranks = stats.rankdata(-table, axis=1).mean(axis=0)
    alike = bool((table == table[:, :1]).all())
    p = 1.0 if alike else float(stats.friedmanchisquare(*table.T).pvalue)
    shown = {name: float(rank) for name, rank in zip(names, ranks, strict=True)}
    return Ranking(shown, p, critical_difference(len(names), len(seeds)), len(seeds))


def critical_difference(entries: int, seeds: int, level: float = LEVEL) -> float:
    """How far apart mean ranks must be (Demšar 2006, section 3.2.2)."""
    q = stats.studentized_range.ppf(1 - level, entries, np.inf) / math.sqrt(2)
    return float(q * math.sqrt(entries * (entries + 1) / (6 * seeds)))
