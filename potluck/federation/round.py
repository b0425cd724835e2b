"""Playing a stage: participants run from exchange to exchange, and the server answers all who come to one."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from potluck.core.errors import PayloadError
from potluck.core.payload import Limits, Payload
from potluck.engines.base import Arrival, LocalEngine
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.server import LazyReplies, Server

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ParticipantTally:
    """What one participant sent, received and noted in one round, or in joining, counted in the round ``since``."""

    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    refused: str | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    since: int = 1
    absent: bool = False
    """Whether its half ended early because it was not there, or did not answer in time."""


class ExchangeLoop:
    """Joining, or a round: everyone's half of the method, and the server's."""

    def __init__(self, method: Method, server: Server, engine: LocalEngine, limits: Limits) -> None:
        self._method, self._server, self._engine, self._limits = method, server, engine, limits
        self._tallies: dict[str, ParticipantTally] = {}

    def play(
        self, stage: Literal["join", "round"], parties: Sequence[Participant], keep_optimizer: bool
    ) -> dict[str, ParticipantTally]:
        """Runs the stage at these participants until all have ended, and returns what each sent and noted."""
        self._tallies = {party.name: ParticipantTally() for party in parties}
        arrivals = self._engine.start(stage, self._method, parties, keep_optimizer)
        while (arrival := next(arrivals, None)) is not None:
            if arrival.exchange is None:
                _end(self._tallies[arrival.sender], arrival)
            else:
                aside: list[Arrival] = []
                replies = self._exchange(arrival.exchange.name, chain([arrival], arrivals), aside)
                arrivals = chain(aside, self._engine.resume(replies))
        return self._tallies

    def _exchange(self, name: str, arrivals: Iterator[Arrival], aside: list[Arrival]) -> Mapping[str, Payload]:
        """Lets the server answer all who came to one exchange, as they come. Others are put aside."""
        serve, form = self._method.answered_by(name)
        answered: list[str] = []

        def answers() -> Iterator[tuple[str, Payload]]:
            coming, order = arrivals, self._method.exchanges()
            while True:
                behind: list[Arrival] = []
                for arrival in coming:
                    if arrival.exchange is None:
                        _end(self._tallies[arrival.sender], arrival)
                    elif arrival.exchange.name == name:
                        if self._accept(arrival, form):
                            answered.append(arrival.sender)
                            yield arrival.sender, arrival.exchange.payload
                    elif arrival.exchange.name in order[: order.index(name)]:
                        behind.append(arrival)
                    else:
                        aside.append(arrival)
                if not behind:
                    return
                # Whoever is at an exchange defined earlier is answered there first, and may still come to this one.
                earliest = min((a.exchange.name for a in behind if a.exchange), key=order.index)
                left: list[Arrival] = []
                replies = self._exchange(earliest, iter(behind), left)
                coming = chain(left, self._engine.resume(replies))

        stream = answers()
        first = next(stream, None)
        if first is None:
            return {}
        with self._engine.clock("merge"):
            result = serve(self._server, chain([first], stream))
            if isinstance(result, Generator):
                result = self._engine.serve(self._server, result, name)
            for _ in stream:
                pass  # whoever the server did not wait for has come to the exchange all the same
        replies = LazyReplies(answered, lambda _: result) if isinstance(result, Payload) else result
        if set(replies) != set(answered):
            raise TypeError(
                f"{type(self._method).__name__}.{name} must reply to {answered}; replied to {list(replies)}"
            )

        def hand_out(sender: str) -> Payload:
            reply: Payload = replies[sender]
            self._tallies[sender].bytes_down += reply.size
            return reply

        return LazyReplies(answered, hand_out)

    def _accept(self, arrival: Arrival, form: Any) -> bool:
        """Counts what was sent, and refuses what must not be read."""
        assert arrival.exchange is not None
        sender, payload = arrival.sender, arrival.exchange.payload
        tally = self._tallies[sender]
        tally.seconds = arrival.seconds
        try:
            tally.bytes_up += payload.size
            if payload.size > self._limits.bytes:
                raise PayloadError(f"the payload has {payload.size} bytes; the limit is {self._limits.bytes}")
            form(self._server, sender).check(payload)
        except PayloadError as error:
            tally.refused = f"{arrival.exchange.name}: {error}"
            log.warning("Round %d goes on without %s: refused %s", self._server.round, sender, tally.refused)
            self._engine.dismiss(sender)
            return False
        return True


def _end(tally: ParticipantTally, arrival: Arrival) -> None:
    tally.seconds = arrival.seconds
    tally.notes = arrival.notes
    tally.bytes_down += arrival.received
    tally.refused, tally.absent = tally.refused or arrival.failed, arrival.failed is not None
