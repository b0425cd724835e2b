"""CoFED's CIFAR setting: each participant has some superclasses, and perhaps only some subclasses of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potluck.core.errors import DataError
from potluck.data.allocation import deal, evenly
from potluck.data.partition import Partition, with_own_labels
from potluck.data.sampling import as_labels, at_least, draws, rows_of, same_length

Range = tuple[int, int]

_TRIES = 20


def superclasses(
    y: Any,
    fine: Any,
    participants: int,
    seed: int = 0,
    per_participant: Range = (6, 8),
    samples_per_class: int = 50,
    subclasses: Range | None = None,
) -> Partition:
    """Gives each participant some superclasses, drawn at random, and some rows of each (CoFED, section 5.2).

    Where rows are scarce, the draws turn to what is left; the ranges hold in any case.

    Args:
        y: the superclass of each row.
        fine: the subclass of each row.
        participants: how many.
        seed: what the draws derive from; by default 0.
        per_participant: the least and the largest number of superclasses of a participant; by default 6 to 8.
        samples_per_class: how many rows of each of its superclasses it gets; by default 50.
        subclasses: from how many subclasses of a superclass these rows are, as a range to draw from such as
            ``(1, 2)`` (the paper's non-IID setting); by default evenly from all (its IID setting).
    """
    y, fine = as_labels(y, "y"), as_labels(fine, "fine")
    same_length(y=y, fine=fine)
    at_least(1, participants=participants, samples_per_class=samples_per_class)
    rng = draws(seed, "superclasses")
    names = np.unique(y)
    pools = [[rows[fine[rows] == name] for name in np.unique(fine[rows])] for rows in rows_of(y, rng)]
    room = [np.array([len(rows) for rows in pool]) for pool in pools]
    low, high = _range("per_participant", per_participant, len(names))
    if subclasses is not None:
        subclasses = _range("subclasses", subclasses, max(len(pool) for pool in pools))
        at_least(subclasses[0], samples_per_class=samples_per_class)

    def slots(people: int, size: int) -> NDArray[Any]:
        """How many participants the rows of each superclass suffice for."""
        return np.array([len(_portions(each, people, size, subclasses)) for each in room])

    def fits(people: int, size: int) -> bool:
        return int(slots(people, size).sum()) >= people * low

    if not fits(participants, samples_per_class):
        raise DataError(
            f"{participants} participants with at least {low} superclasses need {participants * low} portions "
            f"of {samples_per_class} rows of one superclass; {len(y)} rows in {len(names)} superclasses make "
            f"{slots(participants, samples_per_class).sum()}."
            + _remedy("participants", participants, lambda people: fits(people, samples_per_class))
            + _remedy("samples_per_class", samples_per_class, lambda size: fits(participants, size))
        )
    sizes = rng.integers(low, high, size=participants, endpoint=True)
    hands = _hands(sizes, slots(participants, samples_per_class), rng)
    shares: list[list[NDArray[Any]]] = [[] for _ in hands]
    for number, pool in enumerate(pools):
        holders = [share for share, hand in zip(shares, hands, strict=True) if number in hand]
        demand = (room[number], len(holders), samples_per_class, subclasses)
        portions = _portions(*demand, rng)
        if len(portions) < len(holders):
            portions = _portions(*demand)
        for rows, counts in zip(pool, np.reshape(portions, (-1, len(pool))).T, strict=True):
            for share, part in zip(holders, np.split(rows, np.cumsum(counts)), strict=False):
                share.append(part)
    return with_own_labels(shares, [names[hand] for hand in hands])


def _range(name: str, given: Range, most: int) -> Range:
    whole = isinstance(given, tuple | list) and all(isinstance(end, int) for end in given)
    if not whole or len(given) != 2 or not 1 <= given[0] <= given[1] <= most:
        raise DataError(f"{name}={given!r}; expected (from, to) with 1 <= from <= to <= {most}.")
    return given


def _hands(sizes: NDArray[Any], slots: NDArray[Any], rng: np.random.Generator) -> list[NDArray[Any]]:
    """Allocates superclasses at random; sizes that do not fit together are lowered, the largest first."""
    while True:
        if sizes.sum() <= slots.sum():
            for attempt in range(_TRIES + 1):
                hands = deal(sizes, slots, rng, fullest_first=attempt == _TRIES)
                if hands is not None:
                    return hands
        sizes[rng.choice(np.flatnonzero(sizes == sizes.max()))] -= 1


def _portions(
    room: NDArray[Any], count: int, size: int, among: Range | None, rng: np.random.Generator | None = None
) -> list[NDArray[Any]]:
    """Up to ``count`` portions of ``size`` rows: for each, how many rows come from each subclass.

    ``room`` is the number of rows in each subclass. Without ``rng`` the fullest subclasses come first, always
    in the same order: that makes the most portions.
    """
    left = room.copy()
    portions: list[NDArray[Any]] = []
    low, high = among or (1, len(room))
    while len(portions) < count:
        choices = [np.argsort(-left, kind="stable")[:high]]
        if among and rng:
            choices.insert(0, rng.permutation(np.flatnonzero(left))[: rng.integers(low, high, endpoint=True)])
        for chosen in choices:
            portion = np.zeros_like(left)
            portion[chosen] = evenly(size, left[chosen])
            if portion.sum() == size and np.count_nonzero(portion) >= low:
                break
        else:
            break
        left -= portion
        portions.append(portion)
    return portions


def _remedy(name: str, given: int, fits: Callable[[int], bool]) -> str:
    """Ends an error message with a smaller value that would fit, if there is one."""
    works, fails = 0, given
    while fails - works > 1:
        middle = (works + fails) // 2
        works, fails = (middle, fails) if fits(middle) else (works, middle)
    return f" {name}={works} would fit." if works else ""
