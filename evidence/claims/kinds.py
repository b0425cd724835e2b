"""What a claim is: a sentence of a page with what computes its numbers, or says whether it is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evidence.differences import Rounds, paired
from evidence.outcomes import Results

Value = Callable[[Results], str]
Number = Callable[[Results], float]
Holds = Callable[[Results], bool]


@dataclass(frozen=True)
class Claim:
    """A piece of a page's text, ``{}`` in place of each number, and the numbers. It begins and ends with words."""

    says: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Claims:
    """All of a page: sentences with computed numbers, sentences in words, and what else is a number there: settings,
    and what the papers publish.
    """

    numbers: list[Claim]
    words: list[tuple[str, Holds]]
    given: str


def claim(says: str, *values: Value) -> Claim:
    if says.count("{}") != len(values) or says.startswith("{}") or says.endswith("{}"):
        raise ValueError(f"{says!r} needs {len(values)} times {{}}, with words before the first and after the last")
    return Claim(says, values)


def difference(one: str, other: str, rounds: Rounds | None = None) -> Value:
    """``+0.7 (+0.5 … +0.9)``, paired over seeds."""
    return lambda results: paired(results, one, other, rounds).text()


def mean_difference(one: str, other: str, rounds: Rounds | None = None) -> Value:
    """Its mean alone, where the sentence says that ``one`` is ahead."""
    return lambda results: f"{paired(results, one, other, rounds).mean:.1f}"


def mean(values: Callable[[Results], list[float]]) -> Value:
    return lambda results: f"{np.mean(values(results)):.1f}"


def most_and_least(values: Callable[[Results], list[float]], digits: int) -> tuple[Value, Value]:
    """The least and the most."""
    return (
        lambda results: f"{min(values(results)):.{digits}f}",
        lambda results: f"{max(values(results)):.{digits}f}",
    )


def sign(one: str, other: str, rounds: Rounds | None = None, expected: int = 0) -> Holds:
    """The whole interval is above zero (1) or below it (-1), or zero is in it (0)."""
    return lambda results: paired(results, one, other, rounds).sign == expected


def every(*holds: Holds) -> Holds:
    return lambda results: all(one(results) for one in holds)


def within(low: float, value: Number, high: float) -> Holds:
    return lambda results: low <= value(results) <= high


def gain(one: str, other: str, rounds: Rounds | None = None) -> Number:
    return lambda results: paired(results, one, other, rounds).mean


def bytes_up(name: str) -> Number:
    return lambda results: float(np.mean([run["rounds"][-1]["bytes_up"] for run in results.runs(name).values()]))


def ratio(one: Number, other: Number) -> Number:
    return lambda results: one(results) / other(results)
