"""Methods' rounds once more, in plain PyTorch: one batch holds all data, so nothing depends on the order of samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import potluck
from tests.tables import participants

PLAN = potluck.Plan(optimizer="sgd", lr=0.05, epochs=2, batch_size=1000)
"""Two steps of plain gradient descent."""

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(model(x), y)


def descended(
    model: nn.Module,
    data: tuple[Any, Any],
    *,
    steps: int = 2,
    lr: float = 0.05,
    momentum: float = 0.0,
    loss: Loss = cross_entropy,
    only: Sequence[str] | None = None,
) -> nn.Module:
    """A copy of the model after a few steps of SGD on all data, of all parameters or of those named."""
    model = copy.deepcopy(model).train()
    x, y = (torch.as_tensor(column) for column in data)
    trained = [p for name, p in model.named_parameters() if only is None or name in only]
    optimizer = torch.optim.SGD(trained, lr=lr, momentum=momentum)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(model, x, y).backward()
        optimizer.step()
    return model


def mean(models: Sequence[Mapping[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
    """The weighted mean of states, entry by entry."""
    return {
        name: sum(w * model[name] for w, model in zip(weights, models, strict=True)) / sum(weights)  # type: ignore[misc]
        for name in models[0]
    }


def loaded(model: nn.Module, entries: Mapping[str, Tensor]) -> nn.Module:
    """A copy of the model with other weights."""
    model = copy.deepcopy(model)
    model.load_state_dict({**model.state_dict(), **entries})
    return model


def data_of(person: potluck.Participant) -> tuple[Tensor, Tensor]:
    """A participant's samples."""
    return person.data.x, person.data.y


def begun(
    method: potluck.Method, models: Sequence[Any], engine: str = "serial", **settings: Any
) -> tuple[potluck.Federation, list[nn.Module]]:
    """A federation of plain plans that has joined, and copies of the participants' networks as they begin."""
    people = participants(models, plan=settings.pop("plan", PLAN), **settings.pop("people", {}))
    federation = potluck.Federation(people, method, seed=1, engine=engine, **settings)
    federation.run(0)
    return federation, [copy.deepcopy(person.model) for person in people]


def lines(method: potluck.Method, layers: int = 1, epochs: int = 1) -> list[list[float]]:
    """Everyone's weights after a round, for numbers worked out by hand: each answers with their product, w·…·1.

    All weights are 1 at first. One participant has one sample, with the value 6, the other three with the value 2; at a
    rate of 0.1 a step takes 0.2·(w − y) off a single weight.
    """
    people = []
    for name, count, value in (("one", 1, 6.0), ("three", 3, 2.0)):
        network = nn.Sequential(*(nn.Linear(1, 1, bias=False, dtype=torch.float64) for _ in range(layers)))
        for weight in network.parameters():
            nn.init.ones_(weight)
        data = torch.ones(count, 1, dtype=torch.float64), torch.full((count,), value, dtype=torch.float64)
        people.append(
            potluck.Participant(
                name, network, data, task=potluck.Regression(scale=(0.0, 1.0)), plan=PLAN.replace(lr=0.1, epochs=epochs)
            )
        )
    potluck.Federation(people, method, engine="serial").run(1)
    return [[weight.item() for weight in person.model.parameters()] for person in people]


def same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], tolerance: float = 1e-9) -> None:
    """All entries are equal, but for rounding."""
    assert ours.keys() == theirs.keys()
    for name, entry in ours.items():
        torch.testing.assert_close(entry, theirs[name], rtol=tolerance, atol=tolerance)
