"""Who is there in a simulated round: participants that are away, or leave before what they send has arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from pydantic import ConfigDict, Field, model_validator

from potluck.core.errors import SettingsError, nearest
from potluck.core.randomness import generator
from potluck.core.settings import Settings

Presence = Literal["there", "away", "leaves"]
"""Takes part; is not there when the round begins; is gone when it comes to its first exchange of the round."""

Shares = float | dict[str, float]
"""A probability for all, or participant → probability."""


class Availability(Settings):
    """Drop-outs of a simulation, drawn from (seed, participant, round), so that they are the same on every engine.

    Whoever leaves has done its work up to its first exchange of the round, mostly its training, and keeps what came of
    it; what it sends does not arrive. The server goes on with the others.

    Args:
        away: the probability with which a participant is not there in a round: one for all, or participant →
            probability, 0 for those who are not listed; by default 0.
        leaves: the probability with which it leaves in a round; likewise.
        trace: participant → round → "there", "away" or "leaves", which is not drawn then; by default nothing.
    """

    model_config = ConfigDict(title="availability")

    away: Shares = 0.0
    leaves: Shares = 0.0
    trace: dict[str, dict[int, Presence]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _probabilities(self) -> Availability:
        for name in ("", *_names(self.away), *_names(self.leaves)):
            away, leaves = _share(self.away, name), _share(self.leaves, name)
            if not (away >= 0 and leaves >= 0 and away + leaves <= 1):
                whose = f" for {name!r}" if name else ""
                raise ValueError(f"away and leaves{whose} are {away:g} and {leaves:g}; expected from 0 to 1 in all.")
        return self

    def check_names(self, names: Iterable[str]) -> None:
        """Raises SettingsError where it is about somebody who is no participant."""
        known = list(names)
        for name in (*_names(self.away), *_names(self.leaves), *self.trace):
            if name not in known:
                raise SettingsError(f"availability names {name!r}, who is no participant.{nearest(name, known)}")

    def of(self, name: str, round: int, seed: int) -> Presence:
        """How it is with one participant in one round."""
        if (fixed := self.trace.get(name, {}).get(round)) is not None:
            return fixed
        away, leaves = _share(self.away, name), _share(self.leaves, name)
        if not away and not leaves:
            return "there"
        drawn = torch.rand((), generator=generator(seed, name, round, "availability"), dtype=torch.float64).item()
        return "away" if drawn < away else "leaves" if drawn < away + leaves else "there"


def _names(share: float | Mapping[str, float]) -> Iterable[str]:
    return () if isinstance(share, float) else share


def _share(share: float | Mapping[str, float], name: str) -> float:
    return share if isinstance(share, float) else share.get(name, 0.0)


def as_availability(given: float | Availability | None) -> Availability | None:
    """What a user gives: a probability of being there is short for being away with the rest of it."""
    if given is None or isinstance(given, Availability):
        return given
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= 1:
        raise SettingsError(
            f"availability is {given!r}; expected the probability of being there, above 0, up to 1, or an Availability."
        )
    return Availability(away=1.0 - given)
