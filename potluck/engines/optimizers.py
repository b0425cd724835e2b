"""Optimizers as pure functions, so that many networks' steps can be taken in one: SGD, Adam, AdamW.

They follow torch.optim's formulas and remember under torch's names; tests hold them to torch's results.
"""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.plan import Plan

BETAS, EPSILON = (0.9, 0.999), 1e-8

Moments = dict[str, Tensor]
"""What an optimizer remembers of one parameter."""


def fresh(plan: Plan, parameter: Tensor) -> Moments:
    """What an optimizer remembers at first."""
    if plan.optimizer == "sgd":
        return {"momentum_buffer": torch.zeros_like(parameter)} if plan.momentum else {}
    zeros = torch.zeros_like(parameter)
    return {"step": torch.zeros((), device=parameter.device), "exp_avg": zeros, "exp_avg_sq": zeros.clone()}


def update(plan: Plan, parameter: Tensor, gradient: Tensor, moments: Moments, lr: Tensor) -> tuple[Tensor, Moments]:
    """One step of one parameter."""
    if plan.optimizer == "sgd":
        return _sgd(plan, parameter, gradient, moments, lr)
    if plan.optimizer == "adamw":
        parameter = parameter * (1 - lr * plan.weight_decay)
    elif plan.weight_decay:
        gradient = gradient + plan.weight_decay * parameter
    return _adam(parameter, gradient, moments, lr)


def _sgd(plan: Plan, parameter: Tensor, gradient: Tensor, moments: Moments, lr: Tensor) -> tuple[Tensor, Moments]:
    if plan.weight_decay:
        gradient = gradient + plan.weight_decay * parameter
    if plan.momentum:
        gradient = plan.momentum * moments["momentum_buffer"] + gradient
        moments = {"momentum_buffer": gradient}
    return parameter - lr * gradient, moments


def _adam(parameter: Tensor, gradient: Tensor, moments: Moments, lr: Tensor) -> tuple[Tensor, Moments]:
    step = moments["step"] + 1
    mean = BETAS[0] * moments["exp_avg"] + (1 - BETAS[0]) * gradient
    square = BETAS[1] * moments["exp_avg_sq"] + (1 - BETAS[1]) * gradient * gradient
    count = step.to(torch.float64)
    size = (lr.to(torch.float64) / (1 - BETAS[0] ** count)).to(parameter.dtype)
    scale = (1 - BETAS[1] ** count).sqrt().to(parameter.dtype)
    moved = parameter - size * mean / (square.sqrt() / scale + EPSILON)
    return moved, {"step": step, "exp_avg": mean, "exp_avg_sq": square}
