"""A plain PyTorch loop, as anyone would write it: what the engines are measured against on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from potluck.bench.scenarios import Scenario
from potluck.core.randomness import seeded
from potluck.learners.network import make_optimizer
from potluck.models import build


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
