"""Choosing rows: what sources, partitions and public sets all need."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.core.randomness import derive


def draws(seed: int, *purpose: str | int) -> np.random.Generator:
    """Random numbers for one purpose, as numpy draws them."""
    return np.random.default_rng(derive(seed, "data", *purpose))


def at_least(least: int, **given: Any) -> None:
    """Checks whole numbers that a user asked for, e.g. ``at_least(1, participants=participants)``."""
    for name, value in given.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise DataError(f"{name}={value!r}; expected a whole number from {least} up.")


def as_labels(values: Any, what: str) -> NDArray[Any]:
    """One label for each row, as int64 or text, whatever array or list they came in."""
    labels = np.asarray(values)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or len(labels) == 0:
        raise DataError(f"{what} has shape {labels.shape}; expected one label for each of at least one row.")
    kind = labels.dtype.kind
    if kind == "U" or (kind == "O" and all(isinstance(label, str) for label in labels)):
        return labels.astype(str)
    if kind not in "iubf" or not (np.isfinite(labels).all() and (labels % 1 == 0).all()):
        raise DataError(f"{what} holds {labels.dtype} values; expected whole numbers or text, none missing.")
    return labels.astype(np.int64)


def as_values(values: Any, what: str) -> NDArray[Any]:
    """One finite number for each row, as float64."""
    found = np.asarray(values)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iubf" or not np.isfinite(found).all():
        raise DataError(
            f"{what} holds {found.dtype} of shape {found.shape}; expected a finite number for each of at least one row."
        )
    return found.astype(np.float64)


def as_targets(targets: Any, what: str) -> NDArray[Any]:
    """Labels; or, where some are no whole numbers, values."""
    found = np.asarray(targets)
    fractions = found.dtype.kind == "f" and found.ndim == 1 and bool((found % 1 != 0).any())
    return as_values(found, what) if fractions else as_labels(targets, what)


def same_length(**columns: NDArray[Any]) -> None:
    """Checks that all columns have the same number of rows."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"Columns of different lengths: {lengths}; expected one entry for each row.")


def rows_of(y: NDArray[Any], rng: np.random.Generator) -> list[NDArray[Any]]:
    """The rows of each class in the order of the sorted classes; inside a class the order is random."""
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    _, starts = np.unique(y[order], return_index=True)
    return np.split(order, starts[1:])


def set_aside(y: NDArray[Any], count: int, rng: np.random.Generator, what: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draws ``count`` rows, every class in proportion and never its last row: (drawn, left), both sorted."""
    free = np.concatenate([rows[1:] for rows in rows_of(y, rng)])
    if not 1 <= count <= len(free):
        raise DataError(
            f"{what} would be {count} of {len(y)} rows; expected 1 to {len(free)}, since every class keeps one."
        )
    # The rows are ordered by class: steps of equal width take the same share of every class.
    steps = ((np.arange(count) + rng.random()) * len(free) / count).astype(int)
    taken = np.zeros(len(y), dtype=bool)
    taken[free[steps]] = True
    return np.flatnonzero(taken), np.flatnonzero(~taken)
