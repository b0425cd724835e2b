"""Public sets, which all parties may see: split off the data, taken from another source, or generated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.data.sampling import as_labels, as_values, at_least, draws, same_length, set_aside
from potluck.data.source import Source
from potluck.ingestion.tables import is_frame, rows_of

FEW_VALUES = 20
"""A column with no more distinct values than this is treated as categories, not as a measure."""


@dataclass(frozen=True, eq=False)
class Aside:
    """Public rows, and those that are left.

    Args:
        x: the inputs of the public rows.
        y: their labels.
        kept: the numbers of the other rows, which stay private.
    """

    x: Any
    y: NDArray[Any]
    kept: NDArray[Any]


def split_public(x: Any, y: Any, amount: int | float, seed: int = 0, values: bool = False) -> Aside:
    """Splits public rows off, every class in proportion.

    Args:
        x: the inputs.
        y: their targets.
        amount: a share of them, such as 0.1, or a number, such as 500.
        seed: what the draws derive from; by default 0.
        values: whether the targets are values, so that rows are drawn whatever theirs are; by default False.
    """
    x, y = x if is_frame(x) else np.asarray(x), as_values(y, "y") if values else as_labels(y, "y")
    same_length(x=x, y=y)
    if isinstance(amount, float) and not 0 < amount < 1:
        raise DataError(f"amount={amount!r}; expected a share between 0 and 1, or a whole number of rows.")
    amount = round(amount * len(y)) if isinstance(amount, float) else amount
    classes = np.zeros(len(y), dtype=np.int64) if values else y
    public, kept = set_aside(classes, amount, draws(seed, "public rows"), "The public set")
    return Aside(rows_of(x, public), y[public], kept)


def from_source(source: Source, count: int | None = None, seed: int = 0, like: tuple[int, ...] | None = None) -> Any:
    """Another source's training inputs without labels: all, or ``count`` of them. ``like`` is the shape needed.

    Args:
        source: the other source.
        count: how many inputs are drawn; by default None, for all.
        seed: what the draw derives from; by default 0.
        like: the shape that one input must have; by default None, for any.
    """
    if like is not None and source.shape != tuple(like):
        raise DataError(
            f"{source.name} has inputs of shape {source.shape}; the participants' have {tuple(like)}. "
            f"Convert one of them first, or choose another public set."
        )
    if count is None:
        return source.x
    at_least(1, count=count)
    if count > len(source.x):
        raise DataError(f"count={count} public inputs; {source.name} has {len(source.x)}.")
    return rows_of(source.x, np.sort(draws(seed, "public inputs").permutation(len(source.x))[:count]))


def valid_values(x: Any, count: int, seed: int = 0, groups: Sequence[Sequence[int]] = ()) -> Any:
    """Generated rows for a table, each value valid for its column (CoFED section 5.7), columns independent.

    Whole numbers, and columns of few distinct values, take a value that occurs, all equally likely; measures
    are uniform between the least and the greatest. The columns in one of ``groups`` (a one-hot code) are drawn
    together, from the combinations that occur.

    Args:
        x: the table whose columns say what is valid: a DataFrame, or rows of numbers.
        count: how many rows are generated.
        seed: what the draw derives from; by default 0.
        groups: columns that are drawn together, by their positions; by default none.
    """
    if is_frame(x):
        columns = list(x.columns)
        return type(x)(dict(zip(columns, valid_values(x.to_numpy(), count, seed, groups).T, strict=True)))
    x = np.asarray(x)
    if x.ndim != 2 or x.size == 0 or x.dtype.kind not in "biuf" or not np.isfinite(x).all():
        raise DataError(f"x is {x.dtype} of shape {x.shape}; expected a table of finite numbers, not empty.")
    at_least(1, count=count)
    width = x.shape[1]
    grouped = [column for group in groups for column in group]
    if len(set(grouped)) < len(grouped) or not set(grouped) <= set(range(width)):
        raise DataError(f"groups={groups!r}; expected columns from 0 to {width - 1}, none of them twice.")
    rng = draws(seed, "valid values")
    made = np.empty((count, width), dtype=x.dtype)
    for columns in map(list, groups):
        made[:, columns] = rng.choice(np.unique(x[:, columns], axis=0), size=count)
    for column in sorted(set(range(width)) - set(grouped)):
        values = np.unique(x[:, column])
        if len(values) <= FEW_VALUES or (values % 1 == 0).all():
            made[:, column] = rng.choice(values, size=count)
        else:
            made[:, column] = rng.uniform(values[0], values[-1], size=count)
    return made
