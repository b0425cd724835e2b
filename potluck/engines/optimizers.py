"""Optimizers for stacks: one step of many networks' parameters at once, in place. SGD, Adam, AdamW.

They follow torch.optim's formulas and remember under torch's names; tests hold them to torch's results. A step works
element by element, so a stack needs nothing but a learning rate and a step count for each of its networks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.plan import Plan

BETAS, EPSILON = (0.9, 0.999), 1e-8

Moments = dict[str, Tensor]
"""What optimizers remember of one parameter of each network."""


def fresh(plan: Plan, parameter: Tensor) -> Moments:
    """What optimizers remember at first."""
    if plan.optimizer == "sgd":
        return {"momentum_buffer": torch.zeros_like(parameter)} if plan.momentum else {}
    counts = torch.zeros(len(parameter), device=parameter.device)
    return {"step": counts, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}


def advance(plan: Plan, parameter: Tensor, gradient: Tensor, moments: Moments, lr: Tensor) -> None:
    """One step of one parameter of each network. The gradient may be used up."""
    if plan.optimizer == "adamw":
        parameter.mul_(_each(1 - lr * plan.weight_decay, parameter))
    elif plan.weight_decay:
        gradient.add_(parameter, alpha=plan.weight_decay)
    if plan.optimizer == "sgd":
        _sgd(plan, parameter, gradient, moments, lr)
    else:
        _adam(parameter, gradient, moments, lr)


def _sgd(plan: Plan, parameter: Tensor, gradient: Tensor, moments: Moments, lr: Tensor) -> None:
    if plan.momentum:
        gradient = moments["momentum_buffer"].mul_(plan.momentum).add_(gradient)
    parameter.addcmul_(gradient, _each(lr, parameter), value=-1)


def _adam(parameter: Tensor, gradient: Tensor, moments: Moments, lr: Tensor) -> None:
    count = moments["step"].add_(1).double()
    mean = moments["exp_avg"].lerp_(gradient, 1 - BETAS[0])
    square = moments["exp_avg_sq"].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    size, scale = lr / (1 - BETAS[0] ** count), (1 - BETAS[1] ** count).sqrt()
    below = square.sqrt().div_(_each(scale, parameter)).add_(EPSILON)
    parameter.addcdiv_(mean * _each(size, parameter), below, value=-1)


def _each(values: Tensor, like: Tensor) -> Tensor:
    """One number for each network, shaped to meet every element of its slice."""
    return values.to(like.dtype).reshape(-1, *[1] * (like.ndim - 1))
