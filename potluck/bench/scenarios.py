"""The federations that are measured: made-up data of the shapes that the papers and other libraries use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.requests import Exchange, Job
from potluck.engines.base import Session
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.methods import FedAvg
from potluck.models import cnn
from potluck.models.cnn import TABLE_1

Model = str | Callable[..., Any]
Array = np.ndarray[Any, Any]
CIFAR = (3, 32, 32)


@dataclass(frozen=True)
class Scenario:
    """So many participants, who bring these models in turn, with so many samples each of one shape."""

    name: str
    models: tuple[Model, ...]
    count: int
    samples: int
    shape: tuple[int, ...]
    plan: Plan
    classes: int = 10

    @property
    def steps(self) -> int:
        """Optimizer steps of one participant in one epoch."""
        return -(-self.samples // self.plan.batch_size)

    def replace(self, **changes: Any) -> Scenario:
        """This scenario with something changed, e.g. smaller."""
        return replace(self, **changes)

    def participants(self) -> list[Participant]:
        """Everyone with data of its own. A scenario has the same data every time."""
        return [
            Participant(_name(index), model, share, plan=self.plan, labels=range(self.classes))
            for index, (model, share) in enumerate(zip(self.brought(), self.shares(), strict=True))
        ]

    def brought(self) -> list[Model]:
        """Each participant's model."""
        return [self.models[index % len(self.models)] for index in range(self.count)]

    def shares(self) -> Iterator[tuple[Array, Array]]:
        """Each participant's samples: a cloud for each class, so that there is something to learn."""
        centres = np.random.default_rng(0).standard_normal((self.classes, *self.shape), dtype=np.float32)
        for index in range(self.count):
            random = np.random.default_rng((1, index))
            y = random.integers(self.classes, size=self.samples)
            x = random.standard_normal((self.samples, *self.shape), dtype=np.float32)
            yield x + 0.2 * centres[y], y


class Nothing(nn.Module):
    """A model that does nothing: it answers every input with the same numbers."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.answer = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.answer.expand(len(x), -1)


def different_cnns() -> tuple[Model, ...]:
    """A hundred CNNs of CoFED's kind, no two alike. Table 1's channels give only 80, so the third layer has 64, too."""
    layers = [sorted({channels[layer] for channels in TABLE_1.values() if layer < len(channels)}) for layer in range(3)]
    third: Sequence[tuple[int, ...]] = [(), (64,), *((channels,) for channels in layers[2])]
    return tuple(partial(cnn, channels=(a, b, *c)) for a, b, c in product(layers[0], layers[1], third))


MLP = Scenario("MLP", ("mlp",), 100, 600, (784,), Plan(optimizer="sgd", lr=0.1, batch_size=32))
"""MNIST's shape and number of samples, dealt to a hundred; MHAT's network, 784-256-64-10."""

CNN = Scenario("CNN", ("cnn",), 20, 250, CIFAR, Plan(optimizer="adam", lr=1e-3, batch_size=50))
"""CIFAR's shape; CoFED's first network, 24 and 40 channels."""

FEDIN = Scenario(
    "FedIN", tuple(f"resnet{depth}" for depth in (10, 14, 18, 22, 26)), 100, 500, CIFAR, Plan(batch_size=16)
)
"""FedIN, section 5.1: twenty each of five ResNets, CIFAR-10 dealt to a hundred."""

COFED = Scenario("CoFED", tuple(f"cofed{number}" for number in TABLE_1), 100, 500, CIFAR, Plan(batch_size=50))
"""CoFED: ten each of the ten CNNs of Table 1."""

DIFFERENT = COFED.replace(name="all different", models=different_cnns())
"""A hundred participants, no two of one architecture."""

NOTHING = Scenario("nothing", (Nothing,), 100, 2, (1,), Plan(optimizer="sgd", batch_size=2))
"""One step of a model that does nothing: what is left is the engine's own cost."""


RESNET34 = Scenario("ResNet34", ("resnet34",), 6, 2, CIFAR, Plan())
RESNETS = FEDIN.replace(count=10, samples=16)


def federation(
    scenario: Scenario, engine: str, device: str = "cpu", method: Method | None = None, **options: Any
) -> Federation:
    """Everyone at the table and joined, so that what is timed is rounds. FedAvg unless told otherwise."""
    seated = Federation(scenario.participants(), method or FedAvg(), engine=engine, device=device, **options)
    seated.run(0)
    return seated


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


def _name(index: int) -> str:
    return f"p{index:05d}"


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
