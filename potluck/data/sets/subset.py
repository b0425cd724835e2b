"""A part of a source: some of its rows, or the rows of some of its groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.data.sampling import at_least, draws, set_aside
from potluck.data.source import Source
from potluck.ingestion.tables import rows_of


def some_rows(source: Source, train: int | None, test: int | None, seed: int) -> Source:
    """The source with so many training and test rows, every class in proportion; None for all of them."""
    return replace(source, **_rows(source, "", train, seed), **_rows(source, "_test", test, seed))


def some_groups(source: Source, count: int | None, minimum: int, seed: int, what: str) -> Source:
    """The source with so many of the groups that have at least ``minimum`` training rows, drawn; None for all of them.

    Groups without a test row are left out, and so are test rows of labels that no training row is left of.
    """
    assert source.groups is not None, "the data set has groups"
    assert source.groups_test is not None, "and so have its test rows"
    names, sizes = np.unique(source.groups, return_counts=True)
    fit = names[(sizes >= minimum) & np.isin(names, source.groups_test)]
    if count is not None:
        at_least(1, **{what: count})
        if count > len(fit):
            raise DataError(f"{what}={count}; {source.name} has {len(fit)} with at least {minimum} training rows.")
        fit = np.sort(draws(seed, "groups").permutation(fit)[:count])
    training, test = np.isin(source.groups, fit), np.isin(source.groups_test, fit)
    if not source.values:
        test &= np.isin(source.y_test, source.y[training])
    return replace(source, **_only(source, "", training), **_only(source, "_test", test))


def _rows(source: Source, end: str, count: int | None, seed: int) -> dict[str, Any]:
    y = getattr(source, f"y{end}")
    if count is None or count == len(y):
        return {}
    at_least(1, **{"test" if end else "train": count})
    if count > len(y):
        raise DataError(f"{'test' if end else 'train'}={count}; {source.name} has {len(y)} such rows.")
    classes = np.zeros(len(y), dtype=np.int64) if source.values else y
    # Drawn are the rows that are left out, since those that stay must be some of every class.
    _, kept = set_aside(classes, len(y) - count, draws(seed, "rows", end), source.name)
    return _only(source, end, kept)


def _only(source: Source, end: str, rows: NDArray[Any]) -> dict[str, Any]:
    columns = {name: getattr(source, f"{name}{end}") for name in ("x", "y", "fine", "groups")}
    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    return {f"{name}{end}": rows_of(column, numbers) for name, column in columns.items() if column is not None}
