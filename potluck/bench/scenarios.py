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

from potluck.core.job import Job
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.requests import Exchange
from potluck.engines.base import Engine, Session
from potluck.federation.federation import Federation
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.methods import FedAvg
from potluck.models import cnn, mlp
from potluck.models.cnn import TABLE_1

Model = str | Callable[..., Any]
Array = np.ndarray[Any, Any]
CIFAR = (3, 32, 32)


@dataclass(frozen=True)
class Scenario:
    """A federation of a stated size.

    Args:
        name: what figures call it.
        models: what participants bring: the first the first model, and from the beginning again after the last.
        count: how many participants there are.
        samples: how many samples each has.
        shape: the shape of one sample.
        plan: how each trains.
        classes: how many classes there are; by default 10.
    """

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
            Participant(f"p{index:05d}", model, data, plan=self.plan, labels=range(self.classes))
            for index, (model, data) in enumerate(zip(self.participant_models(), self.datasets(), strict=True))
        ]

    def participant_models(self) -> list[Model]:
        """Each participant's model."""
        return [self.models[index % len(self.models)] for index in range(self.count)]

    def datasets(self) -> Iterator[tuple[Array, Array]]:
        """Each participant's samples: a cloud for each class, so that there is something to learn."""
        centres = np.random.default_rng(0).standard_normal((self.classes, *self.shape), dtype=np.float32)
        for index in range(self.count):
            random = np.random.default_rng((1, index))
            y = random.integers(self.classes, size=self.samples)
            x = random.standard_normal((self.samples, *self.shape), dtype=np.float32)
            yield x + 0.2 * centres[y], y


class ConstantModel(nn.Module):
    """A model that does nothing: it answers every input with the same numbers.

    Args:
        classes: how many numbers.
    """

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
"""MNIST's shape and number of samples, divided among a hundred; MHAT's network, 784-256-64-10."""

SMALL_MLP = Scenario("small MLP", (partial(mlp, hidden=(32,)),), 100, 160, (64,), Plan(batch_size=32))
"""Networks so small that what is done beside the steps shows."""

CNN = Scenario("CNN", ("cnn",), 20, 250, CIFAR, Plan(optimizer="adam", lr=1e-3, batch_size=50))
"""CIFAR's shape; CoFED's first network, 24 and 40 channels."""

FEDIN = Scenario(
    "FedIN", tuple(f"resnet{depth}" for depth in (10, 14, 18, 22, 26)), 100, 500, CIFAR, Plan(batch_size=16)
)
"""FedIN, section 5.1: twenty each of five ResNets, CIFAR-10 divided among a hundred."""

COFED = Scenario("CoFED", tuple(f"cofed{number}" for number in TABLE_1), 100, 500, CIFAR, Plan(batch_size=50))
"""CoFED: ten each of the ten CNNs of Table 1."""

ALL_DIFFERENT = COFED.replace(name="all different", models=different_cnns())
"""A hundred participants, no two of one architecture."""

IDLE = Scenario("nothing", (ConstantModel,), 100, 2, (1,), Plan(optimizer="sgd", batch_size=2))
"""One step of a model that does nothing: what is left is the engine's own cost."""

RESNET34 = Scenario("ResNet34", ("resnet34",), 6, 2, CIFAR, Plan())
"""Who answers PerHeFed's server: a few, whose answers are sent again and again."""

RESNETS = FEDIN.replace(count=10, samples=16)
"""Who answers FedIN's server."""


def federation(
    scenario: Scenario, engine: str | Engine, device: str = "cpu", method: Method | None = None, **options: Any
) -> Federation:
    """A federation whose participants have joined, so that what is timed is rounds. FedAvg by default."""
    joined = Federation(scenario.participants(), method or FedAvg(), engine=engine, device=device, **options)
    joined.run(0)
    return joined


@dataclass(frozen=True)
class ServerLoad:
    """One exchange at the server: the answers of a few participants, sent by many.

    Args:
        method: whose exchange it is.
        exchange: the exchange's name.
        server: the server as it is when the answers come.
        answers: what each sender sends. Senders share payloads, so memory stays bounded.
    """

    method: Method
    exchange: str
    server: Server
    answers: dict[str, Payload]

    @property
    def bytes(self) -> int:
        """What all of them send together."""
        return sum(payload.size for payload in self.answers.values())

    def merge(self) -> Any:
        """The server's half of the exchange: all answers in, a reply for each out."""
        serve, _ = self.method.answered_by(self.exchange)
        return serve(self.server, iter(self.answers.items()))

    def check_and_merge(self) -> Any:
        """The same, with every answer checked as it comes: names, shapes, types, finiteness."""
        serve, schema = self.method.answered_by(self.exchange)

        def checked() -> Iterator[tuple[str, Payload]]:
            for sender, payload in self.answers.items():
                schema(self.server, sender).check(payload)
                yield sender, payload

        return serve(self.server, checked())


def server_load(scenario: Scenario, method: Method, senders: int) -> ServerLoad:
    """Has a few participants join and answer once, without training, and multiplies them."""
    few = federation(scenario, "dry-run", method=method)
    few.server.round = 1
    exchanges = {name: _first_exchange(few, name) for name in few.participants}
    names = list(exchanges)
    original = {f"sender{index:05d}": names[index % len(names)] for index in range(senders)}
    server = Server(few.seed, dict.fromkeys(original, 1.0), round=1)
    server.state = {key: _for_all_senders(value, names, original) for key, value in few.server.state.items()}
    answers = {sender: exchanges[name].payload for sender, name in original.items()}
    return ServerLoad(method, exchanges[names[0]].name, server, answers)


def _first_exchange(few: Federation, name: str) -> Exchange:
    """What a participant sends at its first exchange of a round."""
    me = few.participants[name]
    me.round = 1
    session, answer = Session(me, few.method.round(me), "round", keep_optimizer=False), None
    while isinstance(step := session.advance(answer), Job):
        answer = few.engine.answer([step])[0]
    assert isinstance(step, Exchange)
    return step


def _for_all_senders(state: Any, names: list[str], original: dict[str, str]) -> Any:
    """What the server keeps of each participant, for all who send in its name."""
    if isinstance(state, dict) and sorted(state) == sorted(names):
        return {sender: state[name] for sender, name in original.items()}
    return state
