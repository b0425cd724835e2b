"""The server: how fast answers are merged, beside how fast this machine copies memory.

A few real participants give real answers; a hundred senders take turns in sending them, so memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from potluck.bench.measure import in_turns, ratios
from potluck.bench.results import Figure
from potluck.bench.rounds import federation
from potluck.bench.scenarios import CIFAR, FEDIN, Scenario
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.requests import Exchange, Job
from potluck.engines.base import Session
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.federation.server import Server
from potluck.methods import FedIN, PerHeFed

GOAL = 1 / 3
"""Of the machine's copy bandwidth."""

RESNET34 = Scenario("ResNet34", ("resnet34",), 6, 2, CIFAR, Plan())
RESNETS = FEDIN.replace(count=10, samples=16)
COPIED = 2**28
"""Bytes that are copied to learn how fast copying is: far more than caches hold."""


@dataclass(frozen=True)
class Crowd:
    """Answers of a few participants to one exchange, sent by many."""

    method: Method
    exchange: str
    server: Server
    senders: dict[str, Payload]

    @property
    def bytes(self) -> int:
        """What all of them send together."""
        return sum(payload.size for payload in self.senders.values())

    def merge(self) -> Any:
        """The server's half of the exchange: all answers in, a reply for each out."""
        serve, _ = self.method.answered_by(self.exchange)
        return serve(self.server, iter(self.senders.items()))

    def check_and_merge(self) -> Any:
        """The same, with every answer checked as it comes: names, shapes, types, finiteness."""
        serve, form = self.method.answered_by(self.exchange)

        def checked() -> Iterator[tuple[str, Payload]]:
            for sender, payload in self.senders.items():
                form(self.server, sender).check(payload)
                yield sender, payload

        return serve(self.server, checked())


def crowd(scenario: Scenario, method: Method, senders: int) -> Crowd:
    """Has a few participants join and answer once, without training, and multiplies them."""
    table = federation(scenario, "dry-run", method=method)
    table.server.round = 1
    answers = {name: _answer(table, name) for name in table.participants}
    few = list(answers)
    stands_for = {f"sender{index:05d}": few[index % len(few)] for index in range(senders)}
    server = Server(table.seed, dict.fromkeys(stands_for, 1.0), round=1)
    server.state = {key: _for_all(value, few, stands_for) for key, value in table.server.state.items()}
    payloads = {sender: answers[name].payload for sender, name in stands_for.items()}
    return Crowd(method, answers[few[0]].name, server, payloads)


def merging(repeats: int, senders: int = 100, *, checking: bool = False, copied: int = COPIED) -> list[Figure]:
    """Bytes of answers merged in a second, and how that compares with the bytes copied in a second, turn by turn.

    PerHeFed merges sub-models of ResNet34s, FedIN the states of five ResNets; ``checking``: also with every answer
    checked as it comes.
    """
    crowds = {"PerHeFed": crowd(RESNET34, PerHeFed(), senders), "FedIN": crowd(RESNETS, FedIN(), senders)}
    source = torch.ones(copied, dtype=torch.uint8)
    target = torch.empty_like(source)
    sizes, ways = {"memory copied": copied}, {"memory copied": lambda: target.copy_(source)}
    for name, one in crowds.items():
        ways[f"{name} merged"] = one.merge
        if checking:
            ways[f"{name} checked, merged"] = one.check_and_merge
        sizes |= dict.fromkeys((f"{name} merged", f"{name} checked, merged"), one.bytes)
    timings = in_turns(ways, repeats)
    rates = {name: [sizes[name] / seconds / 1e9 for seconds in timing.seconds] for name, timing in timings.items()}
    return [
        *(Figure.of(name, found, "GB/s", "higher") for name, found in rates.items()),
        *(
            Figure.of(f"{name} over copied", ratios(found, rates["memory copied"]), "×", "higher", GOAL)
            for name, found in rates.items()
            if name != "memory copied"
        ),
    ]


def _answer(table: Federation, name: str) -> Exchange:
    """What a participant sends at its first exchange of a round."""
    me = table.participants[name]
    me.round = 1
    session, answer = Session(me, table.method.round(me), "round", keep_optimizer=False), None
    while isinstance(step := session.advance(answer), Job):
        answer = table.engine.answer([step])[0]
    assert isinstance(step, Exchange)
    return step


def _for_all(kept: Any, few: list[str], stands_for: dict[str, str]) -> Any:
    """What the server keeps of each of a few, for all who stand for them."""
    if isinstance(kept, dict) and sorted(kept) == sorted(few):
        return {sender: kept[name] for sender, name in stands_for.items()}
    return kept
