"""The kinds of statements that the papers make, and how each is put to the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from evidence.differences import Difference, Rounds, paired
from evidence.outcomes import ENOUGH, Results, first_at, gains, last_round, measured, spread

VERDICTS = CAME_BACK, IN_PART, DID_NOT, NOT_TRIED = "came back", "in part", "did not", "not tried"


@dataclass(frozen=True)
class Found:
    """What came out, and whether it is as published: None where it is not told apart, or was not played."""

    text: str
    holds: bool | None


Check = Callable[[Results], Found]


@dataclass(frozen=True)
class Statement:
    """A sentence of a paper, or a number of its tables, and what it is measured by here."""

    says: str
    check: Check


def verdict(statements: Iterable[Statement], results: Results) -> str:
    """All hold, some, or none. What is not told apart does not hold."""
    held = [statement.check(results).holds is True for statement in statements]
    return NOT_TRIED if not held else CAME_BACK if all(held) else IN_PART if any(held) else DID_NOT


def ahead(one: str, other: str, rounds: Rounds | None = None, digits: int = 1) -> Check:
    """The 95% interval of the difference, paired over seeds, is above zero."""

    def check(results: Results) -> Found:
        found = paired(results, one, other, rounds)
        return Found(found.text(digits), {1: True, 0: None, -1: False}[found.sign])

    return check


def level(one: str, other: str, within: float, rounds: Rounds | None = None, digits: int = 1) -> Check:
    """The whole 95% interval of the difference is within so many points of zero; it is not if it is all beyond them."""

    def check(results: Results) -> Found:
        found = paired(results, one, other, rounds)
        low, high = found.interval or (-np.inf, np.inf)
        holds = True if -within <= low and high <= within else False if low > within or high < -within else None
        return Found(found.text(digits), holds)

    return check


def near(values: Callable[[Results], list[float]], published: float, within: float, digits: int = 1) -> Check:
    """The mean over seeds is so near to a published number."""

    def check(results: Results) -> Found:
        found = values(results)
        near_enough = abs(float(np.mean(found)) - published) <= within
        return Found(spread(found, 1, digits), near_enough if len(found) >= ENOUGH else None)

    return check


def counted(value: Callable[[Results], float], published: float, within: float, digits: int) -> Check:
    """A count, which needs no seeds, is so near to the published one."""

    def check(results: Results) -> Found:
        found = value(results)
        return Found(f"{found:,.{digits}f}", abs(found - published) <= within)

    return check


def unplayed(results: Results) -> Found:
    """Part of a table or figure that is missing here."""
    return Found("not played", None)


def accuracy(name: str) -> Callable[[Results], list[float]]:
    """Percent after the last round, seed by seed."""
    return lambda results: [100 * measured(run)[last_round(run)] for _, run in sorted(results.runs(name).items())]


def mean_gain(one: str, alone: str) -> Callable[[Results], list[float]]:
    """Percent that a participant gains over itself alone on average, seed by seed."""
    return lambda results: [100 * float(np.mean(found)) for found in all_gains(results, one, alone)]


def all_gains(results: Results, one: str, alone: str) -> list[list[float]]:
    """Everybody's gain, seed by seed."""
    reference = results.runs(alone)
    return [list(gains(run, reference[seed]).values()) for seed, run in sorted(results.runs(one).items())]


def rounds_to(name: str, score: float, over: int = 5) -> Callable[[Results], list[int | None]]:
    """When the mean over so many measured rounds is first at a score, seed by seed; None where it never is."""
    return lambda results: [first_at(run, score / 100, over) for _, run in sorted(results.runs(name).items())]


def sooner(one: str, other: str, score: float, most: float) -> Check:
    """``one`` takes at most such a part of the rounds that ``other`` takes to a fixed accuracy, seed by seed."""

    def check(results: Results) -> Found:
        first, second = rounds_to(one, score)(results), rounds_to(other, score)(results)
        ratios = [a / b for a, b in zip(first, second, strict=True) if a and b]
        text = f"{min(ratios):.1f} … {max(ratios):.1f} times"
        return Found(text, max(ratios) <= most if len(ratios) >= ENOUGH else None)

    return check


def rounds_near(name: str, score: float, published: float, within: float) -> Check:
    """The rounds to a score are so near to the published ones."""

    def check(results: Results) -> Found:
        lasts = [last_round(run) for _, run in sorted(results.runs(name).items())]
        found = rounds_to(name, score)(results)
        arrived = [number for number in found if number is not None]
        text = ", ".join(str(number or f"not in {last}") for number, last in zip(found, lasts, strict=True))
        told = len(arrived) == len(found) >= ENOUGH
        return Found(text, abs(float(np.mean(arrived)) - published) <= within if told else None)

    return check


def everyone_gains(one: str, alone: str) -> Check:
    """Nobody is less accurate than alone, under any seed."""

    def check(results: Results) -> Found:
        found = [gain for run in all_gains(results, one, alone) for gain in run]
        return Found(f"{sum(gain > 0 for gain in found)} of {len(found)}", min(found) > 0)

    return check


def largest_gain(one: str, alone: str, least: float) -> Check:
    """Somebody gains so many percent, under every seed."""

    def check(results: Results) -> Found:
        found = [100 * max(run) for run in all_gains(results, one, alone)]
        return Found(f"{min(found):.0f} … {max(found):.0f}%", min(found) >= least)

    return check


def larger_gain(one: tuple[str, str], other: tuple[str, str]) -> Check:
    """The mean gain of the first is above that of the second, paired over seeds."""

    def check(results: Results) -> Found:
        found = Difference(dict(enumerate(np.subtract(mean_gain(*one)(results), mean_gain(*other)(results)).tolist())))
        return Found(found.text(), {1: True, 0: None, -1: False}[found.sign])

    return check
