"""What can be rebuilt of inputs from the features that a known part of a network makes of them (FedIN, section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Reconstruction:
    """Inputs that give nearly the same features.

    Args:
        inputs: what was rebuilt.
        losses: the mean squared difference of the features before each step, and at the end.
    """

    inputs: Tensor
    losses: list[float]


def reconstruct(
    extract: Callable[[Tensor], Tensor],
    features: Tensor,
    shape: Sequence[int],
    *,
    steps: int = 300,
    lr: float = 0.1,
    seed: int = 0,
) -> Reconstruction:
    """Inputs whose features are as near to given ones as Adam finds, from noise on.

    Args:
        extract: from inputs to features; its weights stay as they are.
        features: the features that travelled, a row for each sample.
        shape: the shape of one input.
        steps: how many steps are taken; by default 300.
        lr: the learning rate; by default 0.1.
        seed: what the noise derives from; by default 0.
    """
    draw = torch.Generator().manual_seed(seed)
    inputs = torch.rand((len(features), *shape), generator=draw, dtype=features.dtype).requires_grad_()
    optimizer, wanted, losses = torch.optim.Adam([inputs], lr=lr), features.detach(), list[float]()
    for _ in range(steps):
        loss = (extract(inputs) - wanted).square().mean()
        losses.append(loss.item())
        (inputs.grad,) = torch.autograd.grad(loss, [inputs])  # none for the network's own weights
        optimizer.step()
    with torch.no_grad():
        losses.append((extract(inputs) - wanted).square().mean().item())
    return Reconstruction(inputs.detach(), losses)
