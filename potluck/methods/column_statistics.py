"""What is disclosed of a table's columns, and how several tables' numbers become those of all of them together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Values = np.ndarray[Any, Any]


def column_names(table: Any) -> list[str]:
    """The columns of a data frame; those of an array are numbered."""
    named = table.columns if hasattr(table, "columns") else range(math.prod(np.asarray(table).shape[1:]))
    return [str(name) for name in named]


def column(table: Any, name: str) -> Any:
    """One column of a table."""
    if not hasattr(table, "columns"):
        return np.asarray(table).reshape(len(table), -1)[:, int(name)]
    return table[next(own for own in table.columns if str(own) == name)]


def numbers_in(values: Any) -> Values | None:
    """A column as numbers, with NaN for what is missing; None if it holds anything else."""
    array = np.asarray(values)
    if array.dtype.kind in "fiub":
        return array.astype(np.float64)
    try:
        return np.asarray([math.nan if _missing(value) else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        return None


def categories_in(values: Any) -> list[str | None]:
    """A column as texts, with None for what is missing. Whole numbers are written without a point."""
    return [None if _missing(value) else _text(value) for value in values]


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or type(value).__name__ == "NAType"


def _text(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    whole = isinstance(value, bool) or (isinstance(value, float) and value.is_integer())
    return str(int(value)) if whole else str(value)


class Moments(NamedTuple):
    """Known values, mean, sum of squared deviations, least and largest value of some numbers.

    Args:
        known: how many values are known.
        mean: their mean.
        squares: the sum of their squared deviations from it.
        low: the least one.
        high: the largest one.
    """

    known: int
    mean: float
    squares: float
    low: float
    high: float

    @property
    def variance(self) -> float | None:
        """The mean squared deviation; None of no values."""
        return self.squares / self.known if self.known else None

    @property
    def range(self) -> tuple[float, float] | tuple[None, None]:
        """The least and the largest value; None of no values."""
        return (self.low, self.high) if self.known else (None, None)

    @staticmethod
    def of(numbers: Values) -> Moments:
        """Those of a column; missing values count nowhere."""
        known = numbers[np.isfinite(numbers)]
        if not len(known):
            return Moments(0, 0.0, 0.0, 0.0, 0.0)
        mean = float(known.mean())
        return Moments(len(known), mean, float(((known - mean) ** 2).sum()), float(known.min()), float(known.max()))

    @staticmethod
    def read(row: list[float]) -> Moments:
        """Those that somebody tells, none of which is negative that cannot be."""
        known, mean, squares, low, high = row
        return Moments(max(0, int(known)), mean, max(0.0, squares), low, high)

    @staticmethod
    def together(parts: Iterable[Moments]) -> Moments:
        """Those of all numbers together (Chan, Golub and LeVeque, 1979)."""
        whole = Moments(0, 0.0, 0.0, math.inf, -math.inf)
        for part in parts:
            if not part.known:
                continue
            count, apart = whole.known + part.known, part.mean - whole.mean
            whole = Moments(
                count,
                whole.mean + apart * part.known / count,
                whole.squares + part.squares + apart**2 * whole.known * part.known / count,
                min(whole.low, part.low),
                max(whole.high, part.high),
            )
        return whole if whole.known else Moments(0, 0.0, 0.0, 0.0, 0.0)


def binned(numbers: Values, low: float, high: float, bins: int) -> Values:
    """How many numbers are in each of so many bins of equal width; what is outside counts in the first and the last."""
    known = numbers[np.isfinite(numbers)].clip(low, high)
    return np.histogram(known, bins=bins, range=(low, high if high > low else low + 1))[0]


def with_neighbours(counts: Values, least: int) -> Values:
    """The counts of bins, those of too few values put together with their neighbours': in the middle one of them all.

    Nothing is left out, so that quantiles stay where they were, give or take the bins put together.
    """
    merged, first = np.zeros_like(counts), 0
    for end in range(1, len(counts) + 1):
        rest = counts[end:].sum()
        if counts[first:end].sum() >= least and (rest == 0 or rest >= least):
            within = counts[first:end].cumsum()
            merged[first + int(np.searchsorted(within, within[-1] / 2))] = within[-1]
            first = end
    return merged


def quantile(counts: Sequence[int], low: float, high: float, share: float) -> float | None:
    """The value below which that share of the numbers is, in a line through its bin; None without numbers."""
    total = sum(counts)
    if not total:
        return None
    width, before = (high - low) / len(counts), 0
    for place, count in enumerate(counts):
        if count and before + count >= share * total:
            return low + width * (place + (share * total - before) / count)
        before += count
    return high


def frequent(values: Iterable[str | None], least: int) -> dict[str, int]:
    """How often each value occurs, of those that occur at least so often; sorted."""
    counts = Counter(value for value in values if value is not None)
    return {value: counts[value] for value in sorted(counts) if counts[value] >= least}


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts by name, added up; sorted."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return {name: total[name] for name in sorted(total)}
