"""CoFED's CIFAR setting: everyone has a few superclasses of its own, and perhaps few subclasses of each."""

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
    """Gives everyone some superclasses, drawn at random, and ``samples_per_class`` rows of each (section 5.2).

    The rows of a superclass are spread evenly over all its subclasses (the paper's IID setting), or over as
    many as are drawn from the range ``subclasses``, e.g. ``(1, 2)`` (its non-IID setting). Where rows are
    scarce, the draws turn to what is left; the ranges hold in any case.
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
        """To how many participants each superclass can give its rows."""
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
    """Deals superclasses at random; sizes too large to be met together are lowered, the largest first."""
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

    ``room`` is the number of rows in each subclass. Without ``rng`` the fullest subclasses serve first, always
    in the same way: that makes the most portions.
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
    """Ends an error message with a value below the one given that would fit, if there is one."""
    works, fails = 0, given
    while fails - works > 1:
        middle = (works + fails) // 2
        works, fails = (middle, fails) if fits(middle) else (works, middle)
    return f" {name}={works} would fit." if works else ""
