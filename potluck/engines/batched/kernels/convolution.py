"""Convolutions of many networks at once on a GPU, faster than ``vmap`` makes them by itself.

``vmap`` turns them into one grouped convolution in the default layout. Two things are faster. Where maps are large the
grouped convolution runs with channels last, the layout its kernels want. Where maps are tiny and channels many, as in a
ResNet's last stages, nearly all the time goes into reading weights, and a batched matrix product reads them once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from potluck.engines.batched.kernels.batch_norm import beside

FEW_POSITIONS, FEW_CHANNELS = 4, 4
"""Up to how many positions of its output map, or channels of its input, a convolution runs as a matrix product."""

IntPair = tuple[int, int]


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    *rest: Any,
    **more: Any,
) -> Tensor:
    """What ``torch.conv2d`` gives, by other routes where these are faster; its parameters are torch's."""
    dilation, groups = [*rest, *[more.get("dilation", 1), more.get("groups", 1)][len(rest) :]]
    plain = input.ndim == 4 and not isinstance(padding, str) and _pair(dilation) == (1, 1) and groups == 1
    if not plain:
        return torch.conv2d(input, weight, bias, stride, padding, *rest, **more)
    output: Tensor = Convolution.apply(input, weight, _pair(stride), _pair(padding))  # type: ignore[no-untyped-call]
    return output if bias is None else output + bias.reshape(-1, 1, 1)


class Convolution(Function):
    """A convolution without bias that knows how to be stacked."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: IntPair, padding: IntPair) -> Tensor:
        return F.conv2d(x, weight, None, stride, padding)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        x, weight, ctx.stride, ctx.padding = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        dx, dw = ConvolutionGradient.apply(grad, x, weight, ctx.stride, ctx.padding, ctx.needs_input_grad[0])  # type: ignore[no-untyped-call]
        return (dx if ctx.needs_input_grad[0] else None), dw, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, x: Tensor, weight: Tensor, stride: IntPair, padding: IntPair
    ) -> tuple[Tensor, int]:
        if in_dims[1] is None:  # one network, many inputs
            x = x.movedim(in_dims[0], 0)
            return torch.unflatten(F.conv2d(x.flatten(0, 1), weight, None, stride, padding), 0, x.shape[:2]), 0
        weight = weight.movedim(in_dims[1], 0)
        if in_dims[0] is None:  # many networks, one input: they are as many filters
            return torch.unflatten(F.conv2d(x, weight.flatten(0, 1), None, stride, padding), 1, weight.shape[:2]), 1
        x = x.movedim(in_dims[0], 0)
        if _as_product(x.shape, weight.shape, stride, padding):
            return _product(x, weight, stride, padding), 0
        output = F.conv2d(beside(x, 0, len(x)), _filters(weight), None, stride, padding, groups=len(weight))
        return torch.unflatten(output, 1, weight.shape[:2]), 1


class ConvolutionGradient(Function):
    """The gradients of a convolution with respect to its input (zeros where nobody asks) and its weight."""

    @staticmethod
    def forward(
        grad: Tensor, x: Tensor, weight: Tensor, stride: IntPair, padding: IntPair, inner: bool
    ) -> tuple[Tensor, Tensor]:
        return _gradients(grad, x, weight, stride, padding, inner, groups=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError("Stacked convolutions have no second derivatives.")

    @staticmethod
    def vmap(
        info: Any,
        in_dims: Any,
        grad: Tensor,
        x: Tensor,
        weight: Tensor,
        stride: IntPair,
        padding: IntPair,
        inner: bool,
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        grad, x, weight = (
            tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
            for tensor, dim in zip((grad, x, weight), in_dims[:3], strict=True)
        )
        if _as_product(x.shape, weight.shape, stride, padding):
            return _product_gradients(grad, x, weight, stride, padding, inner), (0, 0)
        dx, dw = _gradients(
            beside(grad, 0, len(grad)),
            beside(x, 0, len(x)),
            _filters(weight),
            stride,
            padding,
            inner,
            groups=len(weight),
        )
        dx = torch.unflatten(dx, 1, (len(weight), -1)) if inner else dx.new_zeros(1, len(weight))
        return (dx, torch.unflatten(dw.contiguous(), 0, weight.shape[:2])), (1, 0)


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, stride: IntPair, padding: IntPair, inner: bool, groups: int
) -> tuple[Tensor, Tensor]:
    dx, dw, _ = torch.ops.aten.convolution_backward(
        grad, x, weight, None, stride, padding, (1, 1), False, (0, 0), groups, [inner, True, False]
    )
    return (dx if inner else grad.new_zeros(1)), dw


def _filters(weight: Tensor) -> Tensor:
    return weight.flatten(0, 1).contiguous(memory_format=torch.channels_last)


def _as_product(x: Iterable[int], weight: Iterable[int], stride: IntPair, padding: IntPair) -> bool:
    """Whether a stacked convolution is better off as a matrix product."""
    height, width = _output(tuple(x), tuple(weight), stride, padding)
    return height * width <= FEW_POSITIONS or tuple(x)[-3] <= FEW_CHANNELS


def _output(x: tuple[int, ...], weight: tuple[int, ...], stride: IntPair, padding: IntPair) -> IntPair:
    """The size of the map a convolution puts out."""
    sizes = zip(x[-2:], weight[-2:], stride, padding, strict=True)
    height, width = ((size + 2 * pad - kernel) // step + 1 for size, kernel, step, pad in sizes)
    return height, width


def _product(x: Tensor, weight: Tensor, stride: IntPair, padding: IntPair) -> Tensor:
    """networks × samples × channels × height × width, as one matrix product for each network."""
    height, width = _output(x.shape, weight.shape, stride, padding)
    with _reduced_like_convolutions():
        output = _columns(x, weight.shape[-2:], stride, padding) @ weight.flatten(2).mT
    return torch.unflatten(output, 1, (x.shape[1], height, width)).movedim(-1, 2)


def _product_gradients(
    grad: Tensor, x: Tensor, weight: Tensor, stride: IntPair, padding: IntPair, inner: bool
) -> tuple[Tensor, Tensor]:
    columns = _columns(x, weight.shape[-2:], stride, padding)
    rows = grad.movedim(2, -1).flatten(1, 3)
    with _reduced_like_convolutions():
        dw = (rows.mT @ columns).reshape(weight.shape)
        if not inner:
            return x.new_zeros(len(x), 1), dw
        spread = torch.unflatten(rows @ weight.flatten(2), 1, (x.shape[1], *grad.shape[-2:]))
    return _gathered(torch.unflatten(spread, -1, weight.shape[2:]), x.shape, stride, padding), dw


def _columns(x: Tensor, kernel: Iterable[int], stride: IntPair, padding: IntPair) -> Tensor:
    """What each position of the output looks at: networks × (samples · positions) × (channels · kernel)."""
    high, wide = kernel
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    seen = x.unfold(3, high, stride[0]).unfold(4, wide, stride[1])  # n, s, channels, height, width, kernel
    return seen.movedim(2, 4).flatten(4).flatten(1, 3)


def _gathered(spread: Tensor, shape: Iterable[int], stride: IntPair, padding: IntPair) -> Tensor:
    """The opposite of ``_columns``: what each position of the input is owed, added up."""
    networks, samples, channels, high, wide = shape
    _, _, height, width, _, *kernel = spread.shape
    whole = spread.new_zeros(networks, samples, channels, high + 2 * padding[0], wide + 2 * padding[1])
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            down = slice(i, i + stride[0] * (height - 1) + 1, stride[0])
            across = slice(j, j + stride[1] * (width - 1) + 1, stride[1])
            whole[..., down, across] += spread[..., i, j].movedim(-1, 2)
    return whole[..., padding[0] : padding[0] + high, padding[1] : padding[1] + wide]


@contextmanager
def _reduced_like_convolutions() -> Iterator[None]:
    """Matrix products in the precision that PyTorch allows convolutions, in whose place they stand."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _pair(value: Any) -> IntPair:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])
