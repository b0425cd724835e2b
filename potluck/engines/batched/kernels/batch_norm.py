"""BatchNorm of many networks at once on a GPU: one kernel over all their channels, in the layout they come in.

``vmap``'s own form insists on the default layout, and would turn every map round twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``torch.nn.functional.batch_norm`` for maps, with statistics updated by plain operations."""
    channels = input.shape[1]
    scale = input.new_ones(channels) if weight is None else weight
    shift = input.new_zeros(channels) if bias is None else bias
    if not training:
        assert running_mean is not None
        assert running_var is not None
        return (input - _each(running_mean)) * _each(scale * (running_var + eps).rsqrt()) + _each(shift)
    output, mean, inverse = Normalised.apply(input, scale, shift, eps)  # type: ignore[no-untyped-call]
    if running_mean is not None and running_var is not None:
        count = input.numel() // channels
        variance = (inverse.detach() ** -2 - eps) * (count / (count - 1))
        running_mean.mul_(1 - momentum).add_(mean.detach().to(running_mean.dtype), alpha=momentum)
        running_var.mul_(1 - momentum).add_(variance.to(running_var.dtype), alpha=momentum)
    return output  # type: ignore[no-any-return]


def _each(values: Tensor) -> Tensor:
    return values.reshape(-1, 1, 1)


class Normalised(Function):
    """Maps normalised over their samples, with mean and inverse deviation of each channel."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Any:
        return torch.native_batch_norm(x, weight, bias, None, None, True, 0.0, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, _, ctx.eps = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, weight, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> Any:
        return *BatchNormGradient.apply(grad, *ctx.saved_tensors, ctx.eps), None  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Any:
        maps = beside(x, in_dims[0], info.batch_size)
        scale, shift = beside(weight, in_dims[1], info.batch_size), beside(bias, in_dims[2], info.batch_size)
        output, *saved = torch.native_batch_norm(maps, scale, shift, None, None, True, 0.0, eps)
        return (apart(output, info.batch_size), *(apart(k, info.batch_size) for k in saved)), (1, 0, 0)


class BatchNormGradient(Function):
    """The gradients of ``Normalised`` with respect to maps, weight and bias."""

    @staticmethod
    def forward(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inverse: Tensor, eps: float) -> Any:
        return _gradients(grad, x, weight, mean, inverse, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("Stacked BatchNorm has no second derivatives.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Any) -> Any:
        *tensors, eps = inputs
        grad, x, weight, mean, inverse = (
            beside(tensor, dim, info.batch_size) for tensor, dim in zip(tensors, in_dims, strict=False)
        )
        found = _gradients(grad, x, weight, mean, inverse, eps)
        return tuple(apart(each, info.batch_size) for each in found), (1, 0, 0)


def _gradients(grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inverse: Tensor, eps: float) -> Any:
    return torch.ops.aten.native_batch_norm_backward(
        grad, x, weight, None, None, mean, inverse, True, eps, [True, True, True]
    )


def beside(tensor: Tensor, dim: int | None, count: int) -> Tensor:
    """The networks' channels beside each other: of maps (samples × channels × height × width), or of vectors."""
    whole = tensor.expand(count, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    if whole.ndim == 2:
        return whole.flatten()
    return whole.movedim(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)


def apart(tensor: Tensor, count: int) -> Tensor:
    """The opposite of ``beside``; of maps the networks are dimension 1, of vectors dimension 0."""
    channels = 1 if tensor.ndim == 4 else 0
    return torch.unflatten(tensor, channels, (count, -1))
