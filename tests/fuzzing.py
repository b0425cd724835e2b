"""Participants that send anything: random messages, legal and not, against the server's half of a method."""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

import potluck
from potluck.channel.transmission import Transmission
from potluck.core.errors import PotluckError
from potluck.core.exchange_order import ExchangeOrder, Phase
from potluck.core.party import Arrival, Party
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.engines import pick_device
from potluck.engines.base import Half
from potluck.engines.dry_run import DryRun
from potluck.engines.serial import Serial
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant

LIARS = ("p0", "p3")
TIE = "nobody can tell whose is meant"
MEMORY = 2**30
"""How many bytes a test may take beyond what the process has: nobody here has a model of a megabyte."""

Make = Callable[..., Federation]
"""Makes a federation, anew each time, with an engine, and with other settings if they are given."""


NUMBERS = (0, 1, -1, 2, 0.5, 1e-30, 2.0**60, -(2.0**60), 3e38, 1e300, float("nan"), float("inf"))
INTEGERS = (0, 1, -1, 2, 3, 255, 2**16, 2**31, 2**48, -(2**48), 2**62)
FACTS: tuple[Any, ...] = (
    0,
    1,
    -1,
    2**40,
    2**53,
    10**400,
    0.5,
    True,
    None,
    "",
    "x",
    "weights",
    "\x1b[2J",
    [],
    [[]],
    {},
    {"x": 1},
)


class Fuzzed(DryRun):
    """Runs honest participants dry; in the place of the others it sends what it draws."""

    def prepare(
        self, federation: Federation, liars: Iterable[str], honest: Mapping[Any, Payload], seed: int, joining: bool
    ) -> None:
        """What it draws from.

        Args:
            federation: whose engine it is.
            liars: who sends anything.
            honest: what each sent in each exchange when all were honest, by participant and exchange.
            seed: what all draws derive from.
            joining: whether liars lie at joining, too: whoever is refused there sends nothing more.
        """
        self.federation, self.liars, self.honest = federation, set(liars), dict(honest)
        self.draw, self.joining = random.Random(seed), joining
        self.turns = federation.method.turns()
        self.sent = self.accepted = 0

    def start(self, phase: str, parties: Iterable[Party], half: Half, keep_optimizer: bool) -> Iterator[Arrival]:
        people = list(parties)
        known: Phase = "join" if phase == "join" else "round"
        self.truthful = known == "join" and not self.joining
        self.orders = {name: ExchangeOrder(known, self.turns) for name in self.liars}
        self.last: dict[str, str] = {}
        self.told: set[tuple[str, str]] = set()
        lies = [self._lie(party.name) for party in people if party.name in self.liars]
        honest = [party for party in people if party.name not in self.liars]
        first, later = (lies, []) if self.draw.random() < 0.5 else ([], lies)
        yield from first
        if honest:
            yield from super().start(phase, honest, half, keep_optimizer)
        yield from later

    def resume(self, replies: Mapping[str, Payload]) -> Iterator[Arrival]:
        made = {name: replies[name] for name in replies}  # all of them first, as over a network
        return self._resumed(made)

    def _resumed(self, made: Mapping[str, Payload]) -> Iterator[Arrival]:
        liars = [name for name in made if name in self.liars]
        self.accepted += len(liars)
        yield from (self._lie(name) for name in liars)
        if honest := {name: reply for name, reply in made.items() if name not in self.liars}:
            yield from super().resume(honest)

    def dismiss(self, name: str) -> None:
        if name in self._sessions:
            super().dismiss(name)

    def _lie(self, name: str) -> Arrival:
        self.sent += 1
        order, roll = self.orders[name], self.draw.random()
        due = [other for other in self.turns if self._is_due(order, other)]
        if self.truthful:
            return self._truth(name, due)
        if roll < 0.08 or (not due and roll < 0.6):
            notes: dict[str, Any] = self.draw.choice([{}, {"accuracy": 1.0}, {"x": float("nan")}, {"received": "much"}])
            return Arrival(name, None, notes)
        if roll < 0.8 and due:
            exchange = due[0] if self.draw.random() < 0.8 else self.draw.choice(due)
        elif roll < 0.88 and name in self.last:
            exchange = self.last[name]
        else:
            exchange = self.draw.choice([*self.turns, "nonsense", "__class__", "join"])
        order.come_to(exchange)
        self.last[name] = exchange
        return Arrival(name, Exchange(exchange, self._payload(name, exchange)))

    def _truth(self, name: str, due: list[str]) -> Arrival:
        """What it sent when it was honest."""
        asked = next(
            (exchange for exchange in due if (name, exchange) in self.honest and (name, exchange) not in self.told),
            None,
        )
        if asked is None:
            return Arrival(name)
        self.orders[name].come_to(asked)
        self.told.add((name, asked))
        return Arrival(name, Exchange(asked, self.honest[name, asked]))

    def _is_due(self, order: ExchangeOrder, exchange: str) -> bool:
        position = order._next  # where it is, without going there
        due = order.come_to(exchange) is None
        order._next = position
        return due

    def _payload(self, name: str, exchange: str) -> Payload:
        asked = self._asked_for(name, exchange)
        payload = asked or self.honest.get((name, exchange)) or self.draw.choice([*self.honest.values(), Payload()])
        return payload if self.draw.random() < 0.3 else mutated(payload, self.draw)

    def _asked_for(self, name: str, exchange: str) -> Payload | None:
        """Zeros of just the shapes that the contract asks for now, if it can be had."""
        if self.honest.get((name, exchange)) is not None and self.draw.random() < 0.7:
            return None
        try:
            schema = self.federation.method.answered_by(exchange)[1](self.federation.server, name)
        except (PotluckError, LookupError):
            return None
        tensors = {
            tensor: torch.full([n if isinstance(n, int) else 2 for n in like.shape], like.low or 0, dtype=like.dtype)
            for tensor, like in (schema.tensors or {}).items()
        }
        facts = {} if (name, exchange) not in self.honest else dict(self.honest[name, exchange].facts)
        return Payload(tensors, facts)


def mutated(payload: Payload, draw: random.Random) -> Payload:
    """A payload with a few things in it changed."""
    tensors, facts = dict(payload.tensors), dict(payload.facts)
    for _ in range(draw.choice((1, 1, 2, 4))):
        if tensors and (not facts or draw.random() < 0.6):
            name = draw.choice(list(tensors))
            tensors[name] = changed(tensors[name], draw)
            if draw.random() < 0.08:
                tensors[name + draw.choice(("", "x", "\u200b"))] = tensors.pop(name)
        elif facts:
            name = draw.choice(list(facts))
            facts[name] = other(facts[name], draw)
            if draw.random() < 0.08:
                del facts[name]
        else:
            tensors["x"] = torch.zeros(2)
    try:
        return Payload(tensors, facts)
    except PotluckError:
        return payload


def changed(tensor: Tensor, draw: random.Random) -> Tensor:
    """Another tensor: of other values, mostly, or of another shape or type."""
    found, roll = tensor.clone(), draw.random()
    if roll < 0.7 and found.numel():
        flat = found.reshape(-1)
        many = draw.choice((1, 1, max(1, len(flat) // 2), len(flat)))
        rows = torch.tensor(draw.sample(range(len(flat)), many)) if len(flat) < 10_000 else torch.arange(many)
        if found.dtype == torch.bool:
            flat[rows] = ~flat[rows]
        elif found.is_floating_point():
            number = torch.tensor(draw.choice(NUMBERS), dtype=torch.float64).to(found.dtype)
            flat[rows] = number if draw.random() < 0.6 else number * flat[rows]
        else:
            least = torch.iinfo(found.dtype)
            flat[rows] = max(min(draw.choice(INTEGERS), least.max), least.min)
        return flat.reshape(found.shape)
    if roll < 0.9 and found.ndim:
        return draw.choice((found[:0], found[:1], torch.cat([found, found]), found.flip(0), found.transpose(0, -1)))
    return found.to(draw.choice((torch.float64, torch.float16, torch.int64, torch.bool)))


def other(fact: Any, draw: random.Random) -> Any:
    """Another fact: near to the one that there was, mostly."""
    if isinstance(fact, dict) and fact and draw.random() < 0.8:
        name = draw.choice(list(fact))
        return draw.choice(({**fact, name: other(fact[name], draw)}, {n: v for n, v in fact.items() if n != name}))
    if isinstance(fact, list) and fact and draw.random() < 0.8:
        place = draw.randrange(len(fact))
        return draw.choice(
            ([*fact[:place], other(fact[place], draw), *fact[place + 1 :]], fact[:place], fact + fact, fact[::-1])
        )
    if isinstance(fact, int) and not isinstance(fact, bool) and draw.random() < 0.8:
        return draw.choice((fact + 1, fact - 1, -fact, 2 * fact, 0, 1, 2**20, 2**40))
    return draw.choice(FACTS)


def honest_payloads(make: Make) -> dict[Any, Payload]:
    """What each participant sends in each exchange, when all are honest."""
    told = dict[Any, Payload]()

    def note(sent: Transmission) -> None:
        if sent.route.direction == "up":
            told.setdefault((sent.route.participant, sent.route.exchange), sent.sent)

    make("dry-run", channel=potluck.Channel(audit=note)).run(2)
    return told


def strangers_play(federation: Federation, rounds: int) -> list[dict[str, Any]]:
    """Plays rounds in which all participants are treated as strangers, whose messages are not trusted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Participant, "is_local", False)
        return federation.run(rounds).rows()


def fuzzed(make: Make, honest: Mapping[Any, Payload], seed: int, rounds: int, joining: bool) -> int:
    """Plays rounds with liars among the participants; returns how many messages they sent."""
    federation = make(Fuzzed(pick_device("cpu")))
    engine = federation.engine
    assert isinstance(engine, Fuzzed)
    engine.prepare(federation, LIARS, honest, seed, joining)
    for each in strangers_play(federation, rounds):
        reason = each["refused"] or ""
        assert "could not be checked" not in reason, reason
        if TIE in reason:  # two liars of four have said the same
            return engine.sent
        assert "nothing was merged" not in reason, reason
        # Whoever has averaged wild but lawful numbers may get such numbers itself: that is no matter of the boundary.
        assert each["participant"] in LIARS or not reason or " holds " in reason, reason
        assert each["participant"] in LIARS or each["took_part"]
    return engine.sent


def fuzz(make: Make, messages: int, seed: int) -> int:
    """Lies at joining and in rounds by turns, until so many messages were sent."""
    before, sent, honest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, honest_payloads(make)
    while sent < messages:
        seed += 1
        joining = seed % 4 > 0
        sent += fuzzed(make, honest, seed, 2 if joining else 12, joining)
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MEMORY
    return sent


class Refused(Serial):
    """The liars come to an exchange that there is not."""

    def start(self, phase: str, parties: Iterable[Party], half: Half, keep_optimizer: bool) -> Iterator[Arrival]:
        people = list(parties)
        yield from (Arrival(p.name, Exchange("nonsense", Payload())) for p in people if p.name in LIARS)
        yield from super().start(phase, [p for p in people if p.name not in LIARS], half, keep_optimizer)

    def dismiss(self, name: str) -> None:
        if name in self._sessions:
            super().dismiss(name)
