"""What a worker process does: it holds blocks of parties, and plays their halves on a batched engine of its own.

What comes and goes is pickled by Ray, between processes of one user: a worker is started by the run that it works for,
and nothing is taken from anybody else.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from potluck.core.metrics import Scores
from potluck.core.party import Arrival, Movable
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.samples import Samples
from potluck.engines.base import Engine
from potluck.engines.batched.engine import Batched

Fields = dict[str, dict[str, Any]]
"""Party → field → what it holds."""


@dataclass(frozen=True)
class Event:
    """An arrival as it travels: its payload in the bytes that a network would carry.

    Args:
        arrival: the arrival without its exchange.
        exchange: the exchange it has come to; None at the end of its half.
        payload: what is sent there.
    """

    arrival: Arrival
    exchange: str | None = None
    payload: bytes = b""

    @staticmethod
    def of(arrival: Arrival) -> Event:
        """The event of an arrival."""
        if arrival.exchange is None:
            return Event(arrival)
        plain = Arrival(arrival.sender, seconds=arrival.seconds, steps=arrival.steps)
        return Event(plain, arrival.exchange.name, arrival.exchange.payload.to_bytes())

    def arrived(self) -> Arrival:
        """The arrival again."""
        arrival = self.arrival
        if self.exchange is None:
            return arrival
        exchange = Exchange(self.exchange, Payload.from_bytes(self.payload, finite=False))
        return Arrival(arrival.sender, exchange, seconds=arrival.seconds, steps=arrival.steps)


@dataclass
class Found:
    """What comes of one call.

    Args:
        events: whom it brought to an exchange or to the end, in order.
        incidents: what the engine has said so far of what went another way than planned.
        ended: whether no party of the block is on its way any more.
    """

    events: list[Event] = field(default_factory=list)
    incidents: list[str] = field(default_factory=list)
    ended: bool = False


class BlockWorker:
    """Holds blocks of parties, each with an engine that knows of no other block.

    So a result depends on who is in a block, and not on which worker holds it, or on how many workers there are.

    Args:
        path: where modules of the user's are found.
        device: what networks compute on.
        precision: what they compute in.
        threads: how many threads torch may use.
    """

    def __init__(self, path: Sequence[str], device: str, precision: str, threads: int) -> None:
        sys.path += [folder for folder in path if folder not in sys.path]
        torch.set_num_threads(threads)
        self._device, self._precision = torch.device(device), precision
        self._engines: dict[int, Engine] = {}
        self._parties: dict[int, dict[str, Movable]] = {}
        self._tests: dict[str, Samples] = {}

    def receive(self, block: int, parties: bytes, fields: Fields, together: int) -> None:
        """Takes parties up, with what of them changes."""
        held = self._parties.setdefault(block, {})
        if block not in self._engines:
            self._engines[block] = Batched(self._device, self._precision)
            self._engines[block].max_concurrent = together
        for party in pickle.loads(parties):
            party.held |= fields[party.name]
            held[party.name] = party

    def change(self, block: int, fields: Fields) -> Fields:
        """Takes over fields that were changed elsewhere; returns how the block is now."""
        for name, changed in fields.items():
            self._parties[block][name].held |= changed
        return self._fields(block)

    def start(
        self, block: int, phase: str, rounds: Mapping[str, int], half: bytes, keep_optimizer: bool
    ) -> tuple[Found, Fields | None]:
        """Begins a phase at these parties of a block, each in its round."""
        people = [self._in_round(block, name, number) for name, number in rounds.items()]
        return self._until_next(block, self._engines[block].start(phase, people, pickle.loads(half), keep_optimizer))

    def resume(self, block: int, replies: Mapping[str, bytes]) -> tuple[Found, Fields | None]:
        """Hands parties the server's replies."""
        read = {name: Payload.from_bytes(reply) for name, reply in replies.items()}
        return self._until_next(block, self._engines[block].resume(read))

    def dismiss(self, block: int, name: str) -> tuple[Found, Fields | None]:
        """Ends a party's half early."""
        self._engines[block].dismiss(name)
        return self._until_next(block, ())

    def evaluate(
        self, block: int, rounds: Mapping[str, int], tests: Mapping[str, str | None], answering: bytes
    ) -> dict[str, Scores]:
        """What parties score on test data that were sent before, by their names there."""
        people = {name: self._in_round(block, name, number) for name, number in rounds.items()}
        of = {name: None if test is None else self._tests[test] for name, test in tests.items()}
        return self._engines[block].evaluate(people, lambda party: of[party.name], pickle.loads(answering))

    def take_test(self, name: str, samples: Samples) -> None:
        """Takes test data up under a name."""
        self._tests[name] = samples

    def _in_round(self, block: int, name: str, number: int) -> Movable:
        party = self._parties[block][name]
        party.round = number
        return party

    def _until_next(self, block: int, arrivals: Iterable[Arrival]) -> tuple[Found, Fields | None]:
        """Whom it brings to an exchange or to the end; and, when all have ended, how the block is then."""
        engine = self._engines[block]
        events = [Event.of(arrival) for arrival in arrivals]
        ended = not engine.active
        return Found(events, list(engine.incidents), ended), self._fields(block) if ended else None

    def _fields(self, block: int) -> Fields:
        return {
            name: {field: party.held[field] for field in party.changing if field in party.held}
            for name, party in self._parties[block].items()
        }
