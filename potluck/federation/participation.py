"""Who takes part in a round: a share of those who may, so many of them, or those whom a function names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field

from potluck.core.errors import SettingsError, nearest
from potluck.core.plan import Imported
from potluck.core.randomness import generator

Chooser = Callable[[int, list[str], torch.Generator], Iterable[str]]
"""(round, the names of those who may take part, numbers to draw from) → the names of those who do."""

Participation = float | int | Chooser
"""A share above 0, up to 1.0 (a float), a count from 1 on (an int), or a function that chooses."""

HowMany = Annotated[int, Field(strict=True, ge=1)] | Annotated[float, Field(strict=True, gt=0, le=1)]
"""A share or a count, in a file."""

ParticipationSetting = HowMany | Imported
"""A share, a count, or a function named as ``"package.module:name"``, in a file."""


def check_participation(given: Any) -> None:
    """Raises SettingsError unless it says who takes part."""
    share = isinstance(given, float) and 0 < given <= 1
    count = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    if not (share or count or callable(given)):
        raise SettingsError(
            f"participation is {given!r}; expected a share above 0, up to 1.0, a whole number of participants from 1 "
            f"on, or a function (round, names, generator) → names."
        )


def how_many(participation: float | int, people: int) -> int:
    """How many of so many take part in a round."""
    if isinstance(participation, int):
        return min(participation, people)
    return max(1, round(participation * people))


def choose(participation: Participation, round: int, able: Sequence[str], seed: int) -> list[str]:
    """The names of those who take part, sorted; drawn from seed and round alone.

    Args:
        participation: how many, or who.
        round: the round.
        able: the names of those who may take part, sorted.
        seed: the federation's seed.
    """
    if not able:
        return []
    numbers = generator(seed, "participation", round)
    if callable(participation):
        return _named(participation(round, list(able), numbers), round, able)
    order = torch.randperm(len(able), generator=numbers)
    return sorted(able[index] for index in order[: how_many(participation, len(able))].tolist())


def _named(given: Any, round: int, able: Sequence[str]) -> list[str]:
    """What a user's function chose, checked."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise SettingsError(f"participation returned {given!r} in round {round}; expected a list of names.")
    chosen = list(given)
    for name in chosen:
        if name not in able:
            raise SettingsError(
                f"participation chose {name!r} in round {round}, who is none of those who may take part."
                f"{nearest(str(name), able)}"
            )
    if not chosen:
        raise SettingsError(f"participation chose nobody in round {round}; expected at least one name.")
    return sorted(set(chosen))
