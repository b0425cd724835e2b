"""Partitions of one data set among participants. Each is drawn from its seed alone."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError, SettingsError, nearest
from potluck.core.labels import Label
from potluck.core.registry import Registry, call
from potluck.data.allocation import deal, evenly
from potluck.data.partition import Partition, with_all_labels, with_own_labels
from potluck.data.sampling import as_labels, as_targets, at_least, draws, rows_of, same_length
from potluck.data.source import Source
from potluck.data.superclass import superclasses

__all__ = ["PARTITIONS", "Partition", "by_classes", "by_group", "dirichlet", "iid", "quantity", "split", "superclasses"]

_REDRAWS = 20


def iid(y: Any, participants: int, seed: int = 0) -> Partition:
    """Every participant gets an equal part of the shuffled rows.

    Args:
        y: the targets of all rows.
        participants: how many participants there are.
        seed: what the draw derives from; by default 0.
    """
    y = as_targets(y, "y")
    _enough(len(y), participants, minimum=1)
    return with_all_labels(np.array_split(draws(seed, "iid").permutation(len(y)), participants), y)


def dirichlet(y: Any, participants: int, alpha: float, seed: int = 0, minimum: int = 1) -> Partition:
    """Every class is split by proportions from Dirichlet(α, …, α): the smaller α, the more unequal.

    If after some draws a participant still has fewer than ``minimum`` rows, those with most rows give some of theirs.

    Args:
        y: the labels of all rows.
        participants: how many participants there are.
        alpha: α, above 0: the smaller, the more unequal.
        seed: what the draw derives from; by default 0.
        minimum: how many rows everybody has at least; by default 1.
    """
    y = as_labels(y, "y")
    _enough(len(y), participants, minimum)
    _positive(alpha)
    rng = draws(seed, "dirichlet")
    for _ in range(_REDRAWS):
        shares = _draw(y, participants, alpha, rng)
        if min(len(share) for share in shares) >= minimum:
            return with_all_labels(shares, y)
    return with_all_labels(_repair(shares, minimum, rng), y)


def quantity(y: Any, participants: int, alpha: float, seed: int = 0, minimum: int = 1) -> Partition:
    """Shuffled rows in parts of unequal size, drawn from Dirichlet(α, …, α): the smaller α, the more unequal.

    Everybody has ``minimum`` rows beforehand; the rest is divided by what is drawn.

    Args:
        y: the targets of all rows.
        participants: how many participants there are.
        alpha: α, above 0: the smaller, the more unequal.
        seed: what the draw derives from; by default 0.
        minimum: how many rows everybody has at least; by default 1.
    """
    y = as_targets(y, "y")
    _enough(len(y), participants, minimum)
    _positive(alpha)
    rng = draws(seed, "quantity")
    free = len(y) - participants * minimum
    ends = np.rint(np.cumsum(rng.dirichlet(np.full(participants, min(alpha, 1e15)))) * free).astype(int)
    sizes = minimum + np.diff(ends, prepend=0)
    return with_all_labels(np.split(rng.permutation(len(y)), np.cumsum(sizes)[:-1]), y)


def by_classes(y: Any, participants: int, classes: int, seed: int = 0, minimum: int = 1) -> Partition:
    """Every participant gets ``classes`` classes, its label space, and at least ``minimum`` rows of each.

    Every class has equally many participants, as far as its rows suffice, and these split the rows evenly. A class
    has no participant only when participants × classes is less than the number of classes.

    Args:
        y: the labels of all rows.
        participants: how many participants there are.
        classes: how many classes each participant has.
        seed: what the draw derives from; by default 0.
        minimum: how many rows of each of its classes everybody has at least; by default 1.
    """
    y = as_labels(y, "y")
    at_least(1, participants=participants, classes=classes, minimum=minimum)
    rng = draws(seed, "by classes")
    pools = rows_of(y, rng)
    order = rng.permutation(len(pools))  # so that no class is favoured where their participants cannot be equally many
    room = np.array([min(participants, len(pools[number]) // minimum) for number in order])
    asked = participants * classes
    if asked > room.sum():
        most = room.sum() // participants
        raise DataError(
            f"{participants} participants with {classes} classes each need {asked} portions of at least "
            f"{minimum} rows of one class; the {len(pools)} classes make {room.sum()}. "
            + (f"classes={most} would fit." if most else "Lower minimum or participants.")
        )
    hands = deal(np.full(participants, classes), evenly(asked, room), rng, fullest_first=True)
    assert hands is not None, "equal numbers of classes that fit in sum can always be allocated"
    hands = [order[hands[place]] for place in rng.permutation(participants)]
    shares: list[list[NDArray[Any]]] = [[] for _ in hands]
    for number, rows in enumerate(pools):
        holders = [share for share, hand in zip(shares, hands, strict=True) if number in hand]
        for share, part in zip(holders, np.array_split(rows, max(1, len(holders))), strict=False):
            share.append(part)
    return with_own_labels(shares, [np.unique(y)[hand] for hand in hands])


def by_group(
    groups: Any, y: Any, participants: int | None = None, seed: int = 0, names: Sequence[Label] | None = None
) -> Partition:
    """Groups (writers, patients, sites) stay whole: one for each participant, or several drawn at random.

    Args:
        groups: whose each row is.
        y: the target of each row.
        participants: how many; by default as many as there are groups.
        seed: what the draws derive from; by default 0.
        names: the participants' groups, in their order; rows of other groups are nobody's. By default all groups are
            dealt out at random.
    """
    groups, y = as_labels(groups, "groups"), as_targets(y, "y")
    same_length(groups=groups, y=y)
    if names is not None:
        return with_all_labels(_named_groups(groups, names, participants), y)
    rng = draws(seed, "by group")
    held = rows_of(groups, rng)
    if participants is None:
        return with_all_labels(held, y)
    at_least(1, participants=participants)
    if participants > len(held):
        raise DataError(
            f"{participants} participants and {len(held)} groups; expected a whole group for each. "
            f"Ask for at most {len(held)} participants."
        )
    parts = np.array_split(rng.permutation(len(held)), participants)
    return with_all_labels([np.concatenate([held[group] for group in part]) for part in parts], y)


def _named_groups(groups: NDArray[Any], names: Sequence[Label], participants: int | None) -> list[NDArray[Any]]:
    """The rows of each of these groups."""
    known = np.unique(groups).tolist()
    if unknown := [name for name in names if name not in known]:
        raise DataError(f"There is no group {unknown[0]!r}.{nearest(str(unknown[0]), map(str, known))}")
    if participants not in (None, len(names)) or len(set(names)) < len(names):
        raise DataError(
            f"{participants} participants and the groups {list(names)}; expected one group for each, and none twice."
        )
    return [np.flatnonzero(groups == name) for name in names]


PARTITIONS = Registry(
    "partitions",
    {
        "iid": iid,
        "dirichlet": dirichlet,
        "quantity": quantity,
        "by-classes": by_classes,
        "by-group": by_group,
        "superclasses": superclasses,
    },
)
"""Partitions by name; another package adds one under the entry point group ``potluck.partitions``."""


def split(kind: str, source: Source, participants: int, seed: int = 0, **settings: Any) -> Partition:
    """Splits a source's training rows by the name of a partition, which gets the columns it takes.

    Args:
        kind: the name of a partition, such as "dirichlet"; one of ``PARTITIONS``.
        source: what is split.
        participants: how many participants there are.
        seed: what the draw derives from; by default 0.
        settings: the partition's own settings, such as ``alpha``.
    """
    function = PARTITIONS[kind]
    taken = inspect.signature(function).parameters
    columns = {name: getattr(source, name) for name in ("y", "fine", "groups") if name in taken}
    for name, column in columns.items():
        if column is None:
            raise DataError(f"The partition {kind!r} needs {name}, and the source {source.name!r} has none.")
    if source.values and function in (dirichlet, by_classes, superclasses):
        raise DataError(
            f"The partition {kind!r} deals out classes, and the targets of {source.name!r} are values; expected one "
            f"such as 'iid', 'quantity' or 'by-group'."
        )
    partition = call(kind, function, settings, **columns, participants=participants, seed=seed)
    if not isinstance(partition, Partition):
        raise SettingsError(f"{kind!r} gave a {type(partition).__name__}; expected a potluck.data.Partition.")
    return partition


def _positive(alpha: float) -> None:
    if not 0 < alpha < math.inf:
        raise DataError(f"alpha={alpha!r}; expected a number above 0.")


def _enough(rows: int, participants: int, minimum: int) -> None:
    at_least(1, participants=participants, minimum=minimum)
    if participants * minimum > rows:
        raise DataError(
            f"{participants} participants with at least {minimum} rows each need {participants * minimum}, "
            f"and there are {rows}. Lower minimum, or ask for at most {rows // minimum} participants."
        )


def _draw(y: NDArray[Any], participants: int, alpha: float, rng: np.random.Generator) -> list[NDArray[Any]]:
    pieces = []
    for rows in rows_of(y, rng):
        # Beyond this α the proportions are equal to the last row, and still larger numbers would overflow.
        proportions = rng.dirichlet(np.full(participants, min(alpha, 1e15)))
        ends = np.rint(np.cumsum(proportions)[:-1] * len(rows)).astype(int)
        pieces.append(np.split(rows, ends))
    return [np.concatenate(share) for share in zip(*pieces, strict=True)]


def _repair(shares: list[NDArray[Any]], minimum: int, rng: np.random.Generator) -> list[NDArray[Any]]:
    """Reduces the largest shares just as far as the smallest need rows, and moves those rows at random."""
    sizes = np.array([len(share) for share in shares])
    poor = sizes < minimum
    goal = np.full(len(shares), minimum)
    goal[~poor] = evenly(sizes.sum() - goal[poor].sum(), sizes[~poor])
    cut = [np.split(rng.permutation(share), [size]) for share, size in zip(shares, goal, strict=True)]
    kept, given = zip(*cut, strict=True)
    ends = np.cumsum(goal - [len(share) for share in kept])[:-1]
    received = np.split(rng.permutation(np.concatenate(given)), ends)
    return [np.concatenate(pair) for pair in zip(kept, received, strict=True)]
