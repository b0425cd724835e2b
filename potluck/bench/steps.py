"""Training alone, for each participant and step: a plain PyTorch loop against an engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from potluck.bench.measure import Way, in_turns, ratios
from potluck.bench.results import Figure
from potluck.bench.scenarios import Scenario, federation
from potluck.core.randomness import seeded
from potluck.engines import pick_device
from potluck.federation.federation import Federation
from potluck.learners.network import make_optimizer
from potluck.methods import Local
from potluck.models import build

LONG = 3
"""Epochs of the long training: the steps alone are what it takes more than the short one, of one epoch."""

TOUCHED = 8
"""How often a step with Adam must touch each parameter's memory at least: weight, gradient and two moments, each read
and written once."""

COPIED = 2**30


def eager_and_engine(
    scenario: Scenario,
    device: str,
    repeats: int,
    *,
    engine: str = "auto",
    goal: float | None = None,
    **options: Any,
) -> list[Figure]:
    """Milliseconds for each participant and step, and how many times as fast the engine is.

    The eager loop is measured for one participant of each architecture, with everything on the device before. The
    engine is measured for all participants: the whole Fit, with what it copies to and fro; and the steps alone, from
    the difference between a training of one epoch and one of several.
    """
    where = pick_device(device)
    eager = eager_epochs(scenario, where)
    seated = federation(scenario, engine, device, Local(), **options)
    ways: dict[str, Way] = {**eager, "short": partial(_train, seated, 1), "long": partial(_train, seated, LONG)}
    timings = in_turns(ways, repeats, warm_up=2)
    # Everybody brings one of the models in turn, so the mean over architectures is the mean over participants.
    turns = zip(*(timings[name].seconds for name in eager), strict=True)
    plain = [1000 * sum(turn) / len(eager) / scenario.steps for turn in turns]
    each = 1000 / (scenario.count * scenario.steps)
    whole = [each * seconds for seconds in timings["short"].seconds]
    pairs = zip(timings["short"].seconds, timings["long"].seconds, strict=True)
    alone = [each * (long - short) / (LONG - 1) for short, long in pairs]
    name = " ".join([f"{scenario.name} {scenario.count}", *map(str, options.values())])
    return [
        Figure.of(f"{name}: eager", plain, "ms"),
        Figure.of(f"{name}: Fit", whole, "ms"),
        Figure.of(f"{name}: first Fit", [each * timings["short"].first], "ms"),
        Figure.of(f"{name}: steps", alone, "ms"),
        Figure.of(f"{name}: Fit over eager", ratios(plain, whole), "×", "higher"),
        Figure.of(f"{name}: steps over eager", ratios(plain, alone), "×", "higher", goal),
        *_floor(scenario, name, where, alone, repeats),
    ]


def eager_epochs(scenario: Scenario, device: torch.device) -> dict[str, Callable[[], None]]:
    """One epoch of one participant of each architecture: model, data and optimizer are on the device before."""
    shares = scenario.replace(count=len(scenario.models)).shares()
    epochs = {}
    for number, (model, (x, y)) in enumerate(zip(scenario.models, shares, strict=True)):
        with seeded(number):
            network = build(model, scenario.shape, scenario.classes).to(device)
        name = model if isinstance(model, str) else f"model {number}"
        epochs[name] = _epoch(network, torch.from_numpy(x).to(device), torch.from_numpy(y).to(device), scenario)
    return epochs


def _epoch(network: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, scenario: Scenario) -> Callable[[], None]:
    optimizer = make_optimizer(scenario.plan, list(network.parameters()))

    def epoch() -> None:
        network.train()
        for rows in torch.split(torch.randperm(len(x), device=x.device), scenario.plan.batch_size):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(x[rows]), y[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return epoch


def _train(seated: Federation, epochs: int) -> None:
    for participant in seated.participants.values():
        participant.plan = participant.plan.replace(epochs=epochs)
    seated.run(1)


def _floor(scenario: Scenario, name: str, device: torch.device, alone: list[float], repeats: int) -> list[Figure]:
    """The time it takes to move weights, gradients and Adam's state through memory once, and the distance to it."""
    if scenario.plan.optimizer != "adam" or device.type != "cuda":
        return []
    source = torch.zeros(COPIED, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = in_turns({"copy": lambda: target.copy_(source)}, repeats)["copy"]
    traffic = 2 * COPIED / copy.median
    sizes = [_parameters(model, scenario) for model in scenario.models]
    floor = 1000 * TOUCHED * 4 * sum(sizes) / len(sizes) / traffic
    return [
        Figure.of(f"{name}: floor", [floor], "ms"),
        Figure.of(f"{name}: steps over floor", [step / floor for step in alone], "×"),
    ]


def _parameters(model: Any, scenario: Scenario) -> int:
    with torch.device("meta"):
        network = build(model, scenario.shape, scenario.classes)
    return sum(parameter.numel() for parameter in network.parameters())
