"""Training alone, for each participant and step: a plain PyTorch loop against an engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from potluck.bench.measure import Action, interleaved, ratios
from potluck.bench.results import Figure
from potluck.bench.scenarios import Scenario, federation
from potluck.core.randomness import seeded
from potluck.engines import pick_device
from potluck.federation.federation import Federation
from potluck.learners.network import make_optimizer
from potluck.methods import Local
from potluck.models import build

LONG_EPOCHS = 3
"""Epochs of the long training: the steps alone are what it takes more than the short one, of one epoch."""

ADAM_TRAFFIC = 8
"""How often a step with Adam must touch each parameter's memory at least: weight, gradient and two moments, each read
and written once."""

COPIED_BYTES = 2**30
"""How much is copied to learn how fast the GPU's memory is."""


def eager_against_engine(
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
    torch_device = pick_device(device)
    eager = eager_epochs(scenario, torch_device)
    joined = federation(scenario, engine, device, Local(), **options)
    actions: dict[str, Action] = {
        **eager,
        "short": partial(_train, joined, 1),
        "long": partial(_train, joined, LONG_EPOCHS),
    }
    timings = interleaved(actions, repeats, warm_up=2)
    # As many bring each model, so the mean over architectures is the mean over participants.
    repeated = zip(*(timings[name].seconds for name in eager), strict=True)
    plain = [1000 * sum(turn) / len(eager) / scenario.steps for turn in repeated]
    scale = 1000 / (scenario.count * scenario.steps)
    whole = [scale * seconds for seconds in timings["short"].seconds]
    pairs = zip(timings["short"].seconds, timings["long"].seconds, strict=True)
    alone = [scale * (long - short) / (LONG_EPOCHS - 1) for short, long in pairs]
    name = " ".join([f"{scenario.name} {scenario.count}", *map(str, options.values())])
    return [
        Figure.of(f"{name}: eager", plain, "ms"),
        Figure.of(f"{name}: Fit", whole, "ms"),
        Figure.of(f"{name}: first Fit", [scale * timings["short"].first], "ms"),
        Figure.of(f"{name}: steps", alone, "ms"),
        Figure.of(f"{name}: Fit over eager", ratios(plain, whole), "×", "higher"),
        Figure.of(f"{name}: steps over eager", ratios(plain, alone), "×", "higher", goal),
        *_floor(scenario, name, torch_device, alone, repeats),
    ]


def eager_epochs(scenario: Scenario, device: torch.device) -> dict[str, Callable[[], None]]:
    """One epoch of one participant of each architecture: model, data and optimizer are on the device before."""
    datasets = scenario.replace(count=len(scenario.models)).datasets()
    epochs = {}
    for number, (model, (x, y)) in enumerate(zip(scenario.models, datasets, strict=True)):
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


def _train(joined: Federation, epochs: int) -> None:
    for participant in joined.participants.values():
        participant.plan = participant.plan.replace(epochs=epochs)
    joined.run(1)


def _floor(scenario: Scenario, name: str, device: torch.device, alone: list[float], repeats: int) -> list[Figure]:
    """The time it takes to move weights, gradients and Adam's state through memory once, and the distance to it."""
    if scenario.plan.optimizer != "adam" or device.type != "cuda":
        return []
    source = torch.zeros(COPIED_BYTES, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = interleaved({"copy": lambda: target.copy_(source)}, repeats)["copy"]
    traffic = 2 * COPIED_BYTES / copy.median
    sizes = [_parameters(model, scenario) for model in scenario.models]
    floor = 1000 * ADAM_TRAFFIC * 4 * sum(sizes) / len(sizes) / traffic
    return [
        Figure.of(f"{name}: floor", [floor], "ms"),
        Figure.of(f"{name}: steps over floor", [step / floor for step in alone], "×"),
    ]


def _parameters(model: Any, scenario: Scenario) -> int:
    with torch.device("meta"):
        network = build(model, scenario.shape, scenario.classes)
    return sum(parameter.numel() for parameter in network.parameters())
