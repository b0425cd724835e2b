"""How much FedIN's Prox weighs in networks of different width (eq. 3, μ/2 = 0.05): no federation, one participant.

A ResNet18 trains alone as in section 5, without Prox. What Prox would add is compared with what is there: its loss with
the cross-entropy, and the length of its gradient with that of the cross-entropy's.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

import potluck
from evidence.experiment import RESULTS, SEEDS, Data
from evidence.fedin_cifar import PLAN
from potluck.data import Source
from potluck.methods import FedIN
from potluck.models import resnet

WIDTHS = (8, 16, 32, 64)
STEPS = range(51, 71)
"""Where it is measured: in the third epoch of a participant with 400 images."""
IMAGES = 400


def rows(source: Source, seed: int) -> NDArray[Any]:
    """The images of one of section 5's participants."""
    shares = potluck.data.dirichlet(source.y, 100, 0.5, seed, minimum=PLAN.batch_size).shares
    return next(share for share in shares if len(share) >= IMAGES)[:IMAGES]


def weighed(source: Source, rows: NDArray[Any], width: int, seed: int, steps: range = STEPS) -> dict[str, float]:
    """The means over the steps."""
    x, y = torch.as_tensor(source.x[rows]).float() / 255, torch.as_tensor(np.asarray(source.y)[rows]).long()
    torch.manual_seed(seed)
    network = resnet(18, source.shape, len(source.labels), width=width)
    weights = list(network.parameters())
    start = [weight.detach().clone() for weight in weights]
    optimizer = torch.optim.Adam(weights, lr=PLAN.lr)
    batches = [batch for _ in range(PLAN.epochs) for batch in torch.split(torch.randperm(len(x)), PLAN.batch_size)]
    found: list[tuple[float, float, float]] = []
    for step, batch in enumerate(batches[: steps.stop - 1], start=1):
        optimizer.zero_grad()
        loss = F.cross_entropy(network(x[batch]), y[batch])
        loss.backward()  # type: ignore[no-untyped-call]
        if step in steps:
            moved = _length([weight.detach() - first for weight, first in zip(weights, start, strict=True)])
            length = _length([weight.grad for weight in weights if weight.grad is not None])
            proximal = FedIN().proximal
            found.append((loss.item(), proximal * moved**2, 2 * proximal * moved / length))
        optimizer.step()
    names = ("cross-entropy", "proximal loss", "ratio of gradients")
    return dict(zip(names, np.mean(found, axis=0).tolist(), strict=True))


def _length(tensors: list[torch.Tensor]) -> float:
    return float(torch.cat([tensor.flatten() for tensor in tensors]).norm())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m evidence.proximal", description=__doc__)
    parser.add_argument("--data", required=True, help="the folder with the data sets")
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    source = Data(chosen.data)["cifar10"]
    found = {str(width): [weighed(source, rows(source, seed), width, seed) for seed in SEEDS] for width in WIDTHS}
    (chosen.results / "counts.proximal.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
