"""Optimizers for stacks: one step of many networks' parameters at once, in place. SGD, Adam, AdamW.

They follow torch.optim's formulas and remember under torch's names; tests hold them to torch's results. A step works
element by element, so a stack needs nothing but a learning rate and a step count for each of its networks. On a GPU
Adam takes PyTorch's own fused kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from potluck.core.objectives import Gradients
from potluck.core.plan import Plan

STACKABLE_OPTIMIZERS = ("sgd", "adam", "adamw")
"""The plans' optimizers that a whole stack can follow."""

BETAS, EPSILON = (0.9, 0.999), 1e-8

OptimizerMoments = dict[str, Tensor]
"""What optimizers remember of one parameter of each network."""


def fresh(plan: Plan, parameter: Tensor) -> OptimizerMoments:
    """What optimizers remember at first."""
    if plan.optimizer == "sgd":
        return {"momentum_buffer": torch.zeros_like(parameter)} if plan.momentum else {}
    counts = torch.zeros(len(parameter), device=parameter.device)
    return {"step": counts, "exp_avg": torch.zeros_like(parameter), "exp_avg_sq": torch.zeros_like(parameter)}


def clipped(gradients: Gradients, plan: Plan) -> Gradients:
    """Each network's gradients scaled down to a total norm of at most ``plan.max_grad_norm``, by torch's formula."""
    if plan.max_grad_norm is None or not gradients:
        return gradients
    norms = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients.values()]).norm(dim=0)
    factor = (plan.max_grad_norm / (norms + 1e-6)).clamp(max=1.0)
    return {name: g * factor.reshape(-1, *[1] * (g.ndim - 1)) for name, g in gradients.items()}


def advance(
    plan: Plan,
    parameters: Mapping[str, Tensor],
    gradients: Gradients,
    moments: Mapping[str, OptimizerMoments],
    lr: Tensor,
    abreast: bool = False,
) -> None:
    """One step of every network at its own rate. The gradients may be used up.

    ``abreast``: all networks are at the same step and rate, so that their stack is like one large network.
    """
    if plan.optimizer != "sgd" and all(p.is_cuda and p.dtype == torch.float32 for p in parameters.values()):
        _fused_adam(plan, parameters, gradients, moments, lr.float(), abreast)
        return
    for name, parameter in parameters.items():
        _advance_one(plan, parameter, gradients[name], moments[name], lr)


def _fused_adam(
    plan: Plan,
    parameters: Mapping[str, Tensor],
    gradients: Gradients,
    moments: Mapping[str, OptimizerMoments],
    lr: Tensor,
    abreast: bool,
) -> None:
    """PyTorch's fused kernel, which reads and writes everything once: for the whole stack, or for each network."""
    step = adamw if plan.optimizer == "adamw" else adam
    whole = [
        (parameter, gradients[name].contiguous(), *(moments[name][key] for key in ("exp_avg", "exp_avg_sq")))
        for name, parameter in parameters.items()
    ]
    counts = [moments[name]["step"] for name in parameters]
    for network in [0] if abreast else range(len(lr)):
        each = whole if abreast else [tuple(tensor[network] for tensor in tensors) for tensors in whole]
        own, gradient, mean, square = (list(column) for column in zip(*each, strict=True))
        step(
            own,
            gradient,
            mean,
            square,
            [],
            [count[network] for count in counts],
            fused=True,
            amsgrad=False,
            beta1=BETAS[0],
            beta2=BETAS[1],
            lr=lr[network],
            weight_decay=plan.weight_decay,
            eps=EPSILON,
            maximize=False,
        )
    if abreast and len(lr) > 1:
        torch._foreach_add_([count[1:] for count in counts], 1)


def _advance_one(plan: Plan, parameter: Tensor, gradient: Tensor, moments: OptimizerMoments, lr: Tensor) -> None:
    """One step of one parameter of each network."""
    if plan.optimizer == "adamw":
        parameter.mul_(_each(1 - lr * plan.weight_decay, parameter))
    elif plan.weight_decay:
        gradient.add_(parameter, alpha=plan.weight_decay)
    if plan.optimizer == "sgd":
        _sgd(plan, parameter, gradient, moments, lr)
    else:
        _adam(parameter, gradient, moments, lr)


def _sgd(plan: Plan, parameter: Tensor, gradient: Tensor, moments: OptimizerMoments, lr: Tensor) -> None:
    if plan.momentum:
        gradient = moments["momentum_buffer"].mul_(plan.momentum).add_(gradient)
    parameter.addcmul_(gradient, _each(lr, parameter), value=-1)


def _adam(parameter: Tensor, gradient: Tensor, moments: OptimizerMoments, lr: Tensor) -> None:
    count = moments["step"].add_(1).double()
    mean = moments["exp_avg"].lerp_(gradient, 1 - BETAS[0])
    square = moments["exp_avg_sq"].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
    size, scale = lr / (1 - BETAS[0] ** count), (1 - BETAS[1] ** count).sqrt()
    below = square.sqrt().div_(_each(scale, parameter)).add_(EPSILON)
    parameter.addcdiv_(mean * _each(size, parameter), below, value=-1)


def _each(values: Tensor, like: Tensor) -> Tensor:
    """One number for each network, shaped to meet every element of its slice."""
    return values.to(like.dtype).reshape(-1, *[1] * (like.ndim - 1))
