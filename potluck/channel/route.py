"""Which payload is meant: who sends it to whom, in which round and exchange."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

Direction = Literal["up", "down"]
"""From a participant to the server, or back."""


@dataclass(frozen=True)
class Route:
    """Which payload it is: all that a codec's random numbers derive from.

    Args:
        seed: the federation's seed.
        participant: who sends or receives it.
        round: in which round; 0 in joining.
        exchange: in which exchange.
        direction: "up" from a participant, "down" from the server.
        count: how many of this exchange and direction came before in this phase; by default 0.
    """

    seed: int
    participant: str
    round: int
    exchange: str
    direction: Direction
    count: int = 0

    @property
    def stamp(self) -> str:
        """Both sides' name for this payload."""
        return f"{self.round} {self.exchange} {self.count}"


class Routes:
    """Counts the payloads of a phase, so that each has a route of its own.

    Args:
        seed: the federation's seed.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._counts: Counter[tuple[str, str, Direction]] = Counter()

    def begin(self) -> None:
        """A phase begins."""
        self._counts = Counter()

    def next(self, participant: str, round: int, exchange: str, direction: Direction) -> Route:
        """The route of the next payload of a participant, exchange and direction."""
        place = (participant, exchange, direction)
        self._counts[place] += 1
        return Route(self._seed, participant, round, exchange, direction, self._counts[place] - 1)
