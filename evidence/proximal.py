"""How much FedIN's Prox weighs in networks of different width (eq. 3, μ/2 = 0.05): no federation, one participant.

A ResNet18 trains alone as in section 5, without Prox. What Prox would add is compared with what is there: its loss with
the cross-entropy, and the length of its gradient with that of the cross-entropy's. It grows with every step away from
the weights that were received, so it is measured twice.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

import potluck
from evidence.experiment import SEEDS, Data
from evidence.fedin_cifar import PLAN
from evidence.result_files import RESULTS, keep_content
from potluck.data import Source
from potluck.methods import FedIN
from potluck.models import resnet

PROXIMAL = FedIN().proximal
WIDTHS = (8, 16, 32, 64)
IMAGES = 500
STEPS = {"25 steps": range(16, 26), "150 steps": range(141, 151)}
"""Where a round ends in the narrow federations, and at full scale; the means are over the ten steps before."""


def rows(source: Source, seed: int) -> NDArray[Any]:
    """The images of one of section 5's participants."""
    shares = potluck.data.dirichlet(source.y, 100, 0.5, seed, minimum=PLAN.batch_size).indices
    return next(share for share in shares if len(share) >= IMAGES)[:IMAGES]


def weighed(source: Source, rows: NDArray[Any], width: int, seed: int) -> list[dict[str, float]]:
    """Step by step, before each: the cross-entropy, the proximal loss, and the ratio of the gradients' lengths."""
    x, y = torch.as_tensor(source.x[rows]).float() / 255, torch.as_tensor(np.asarray(source.y)[rows]).long()
    torch.manual_seed(seed)
    network = resnet(18, source.shape, len(source.labels), width=width)
    weights = list(network.parameters())
    start = [weight.detach().clone() for weight in weights]
    optimizer = torch.optim.Adam(weights, lr=PLAN.lr)
    found = []
    for _ in range(PLAN.epochs):
        for batch in torch.split(torch.randperm(len(x)), PLAN.batch_size):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(x[batch]), y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            moved = _length([weight.detach() - first for weight, first in zip(weights, start, strict=True)])
            length = _length([weight.grad for weight in weights if weight.grad is not None])
            scores = (loss.item(), PROXIMAL * moved**2, 2 * PROXIMAL * moved / length)
            found.append(dict(zip(("cross-entropy", "proximal loss", "ratio of gradients"), scores, strict=True)))
            optimizer.step()
    return found


def mean_over(found: list[dict[str, float]], steps: range) -> dict[str, float]:
    """Steps are counted from one."""
    return {name: float(np.mean([found[step - 1][name] for step in steps])) for name in found[0]}


def _length(tensors: list[torch.Tensor]) -> float:
    return float(torch.cat([tensor.flatten() for tensor in tensors]).norm())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.proximal", description=__doc__)
    parser.add_argument("--data", required=True, help="the folder with the data sets")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    source = Data(chosen.data)["cifar10"]
    found: dict[int, list[dict[str, dict[str, float]]]] = {}
    for width in WIDTHS:
        all_steps = [weighed(source, rows(source, seed), width, seed) for seed in SEEDS]
        found[width] = [{title: mean_over(one, steps) for title, steps in STEPS.items()} for one in all_steps]
    keep_content("proximal", "", {str(width): by_seeds for width, by_seeds in found.items()}, chosen.results)


if __name__ == "__main__":
    main()
