"""The order of the exchanges of a phase: which of them is due to a participant, and what is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Phase = Literal["join", "round"]


@dataclass(frozen=True)
class ExchangeTurn:
    """When an exchange is due.

    Args:
        phase: the phase it belongs to; by default "round".
        optional: whether a participant may pass it by; by default False.
        repeats: whether it may come more than once in a phase; by default False.
    """

    phase: Phase = "round"
    optional: bool = False
    repeats: bool = False


class ExchangeOrder:
    """Where one participant is among the exchanges of a phase: each belongs to it, comes in order, and comes once.

    Args:
        phase: the phase.
        turns: when each exchange of the method is due, in the method's order.
    """

    def __init__(self, phase: Phase, turns: Mapping[str, ExchangeTurn]) -> None:
        self._phase, self._turns = phase, turns
        self._names = [name for name, turn in turns.items() if turn.phase == phase]
        self._next = 0

    def come_to(self, name: str) -> str | None:
        """Takes it to an exchange, or says why that one is not due."""
        if name not in self._turns:
            return f"{name[:100]!r} is no exchange of the method"
        if self._turns[name].phase != self._phase:
            other = "joining" if self._turns[name].phase == "join" else "a round"
            return f"{name!r} belongs to {other} and came in {'joining' if self._phase == 'join' else 'a round'}"
        place = self._names.index(name)
        if place < self._next:
            return None if self._repeats(place) else f"{name!r} came twice, or too late"
        if missing := self._required(place):
            return f"{name!r} came before {missing!r}"
        self._next = place + 1
        return None

    def end(self) -> str | None:
        """Says which exchange was still due, if any was."""
        missing = self._required(len(self._names))
        return f"it ended before {missing!r}" if missing else None

    def _repeats(self, place: int) -> bool:
        """Whether it may go back to an exchange; those after it are due again."""
        if not self._turns[self._names[place]].repeats:
            return False
        self._next = place + 1
        return True

    def _required(self, place: int) -> str | None:
        """The first exchange before a place that was not come to and must not be passed by."""
        return next((name for name in self._names[self._next : place] if not self._turns[name].optional), None)
