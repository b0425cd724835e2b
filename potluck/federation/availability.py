"""Who is there in a simulated round: participants that are away, or whose answers do not arrive, or come too late."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate, chain
from typing import Literal

import torch
from pydantic import ConfigDict, Field, PositiveInt, model_validator

from potluck.core.errors import SettingsError, nearest
from potluck.core.randomness import generator
from potluck.core.settings import Settings

Presence = Literal["there", "away", "leaves", "late"]
"""Takes part; is not there when the round begins; is gone before it sends anything; sends it after the deadline."""

Shares = float | dict[str, float]
"""A probability for all, or participant → probability."""


class Availability(Settings):
    """Drop-outs of a simulation, drawn from (seed, participant, round), so that they are the same on every engine.

    Whoever leaves, or is late, has done its work up to the first exchange of the round in which it sends anything,
    mostly its training, and keeps what came of it. What leaves with it is never sent; what is late is sent, and not
    read. The server goes on with the others.

    Args:
        away: the probability with which a participant is not there in a round: one for all, or participant →
            probability, 0 for those who are not listed; by default 0.
        leaves: the probability with which it leaves in a round; likewise.
        late: the probability with which it is too slow for the server's deadline in a round; likewise. A
            ``VirtualClock`` finds out by itself who that is.
        trace: participant → round, from 1 on → "there", "away", "leaves" or "late", which is not drawn then; by
            default nothing.
    """

    model_config = ConfigDict(title="availability")

    away: Shares = 0.0
    leaves: Shares = 0.0
    late: Shares = 0.0
    trace: dict[str, dict[PositiveInt, Presence]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _probabilities(self) -> Availability:
        for name in ("", *(name for share in self._shares.values() for name in _names(share))):
            found = {presence: _share(share, name) for presence, share in self._shares.items()}
            if not (min(found.values()) >= 0 and math.fsum(found.values()) <= 1):
                whose = f" for {name!r}" if name else ""
                shares = ", ".join(f"{presence} = {share:g}" for presence, share in found.items())
                raise ValueError(f"{shares}{whose}; expected probabilities from 0 on, up to 1 in all.")
        return self

    @property
    def _shares(self) -> dict[Presence, Shares]:
        return {"away": self.away, "leaves": self.leaves, "late": self.late}

    def check_names(self, names: Iterable[str]) -> None:
        """Raises SettingsError where it is about somebody who is no participant."""
        known = list(names)
        for name in (*chain.from_iterable(map(_names, self._shares.values())), *self.trace):
            if name not in known:
                raise SettingsError(f"availability names {name!r}, who is no participant.{nearest(name, known)}")

    def of(self, name: str, round: int, seed: int) -> Presence:
        """How it is with one participant in one round."""
        if (fixed := self.trace.get(name, {}).get(round)) is not None:
            return fixed
        found = {presence: _share(share, name) for presence, share in self._shares.items()}
        if not any(found.values()):
            return "there"
        drawn = torch.rand((), generator=generator(seed, name, round, "availability"), dtype=torch.float64).item()
        for presence, reached in zip(found, accumulate(found.values()), strict=True):
            if drawn < reached:
                return presence
        return "there"


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
