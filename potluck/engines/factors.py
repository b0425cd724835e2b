"""Linear layers whose gradients stay in two factors: for plain SGD over a stack on a CPU.

A linear layer's gradient is GᵀX, where X went in and G is the gradient of what came out. Plain SGD does nothing but
subtract it, so the product is added to the weights while it is computed: a stack of gradients, as large as all
weights, is neither written nor read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from potluck.plan import Plan


class Call(NamedTuple):
    """A linear layer's turn in a network's pass: whose weights, and the shape of what came out for each sample."""

    weight: str
    shape: tuple[int, ...]


def plain_sgd(plan: Plan) -> bool:
    """Whether a step of this plan is no more than weights − rate · gradient."""
    return plan.optimizer == "sgd" and not plan.momentum and not plan.weight_decay and plan.clip is None


class Watch(TorchFunctionMode):
    """While it is on, notes the calls of linear layers, and which parameters anything else looks at."""

    def __init__(self, parameters: Mapping[str, Tensor], samples: int) -> None:
        super().__init__()
        self._samples = samples
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._calls: list[Call] = []
        self._seen_elsewhere: set[str] = set()

    def calls(self) -> tuple[Call, ...]:
        """The calls whose weights nothing but linear layers looks at, in their order."""
        return tuple(call for call in self._calls if call.weight not in self._seen_elsewhere)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        others = args
        if func is F.linear and len(args) > 1 and output.ndim > 1 and len(output) == self._samples:
            if id(args[1]) in self._names:
                self._calls.append(Call(self._names[id(args[1])], tuple(output.shape[1:])))
            others = (args[0], *args[2:])
        found = (self._names.get(id(leaf)) for leaf in tree_leaves((others, kwargs)))
        self._seen_elsewhere.update(name for name in found if name is not None)
        return output


class Factored(TorchFunctionMode):
    """While it is on, these weights' layers keep what goes in, and add a zero to what comes out: its gradient is G."""

    def __init__(self, weights: Mapping[str, Tensor], zeros: Sequence[Tensor]) -> None:
        super().__init__()
        self._weights = {id(weight) for weight in weights.values()}
        self._zeros = iter(zeros)
        self.inputs: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func is not F.linear or id(args[1]) not in self._weights:
            return output
        zero = next(self._zeros)
        if zero.shape != output.shape:
            raise RuntimeError(f"a linear layer gave {tuple(output.shape)}; expected {tuple(zero.shape)} as before")
        self.inputs.append(args[0])
        return output + zero


def subtract_products(
    weights: Mapping[str, Tensor], calls: Sequence[Call], outer: Sequence[Tensor], inner: Sequence[Tensor], lr: Tensor
) -> None:
    """weights − rate · GᵀX for each call, for every network of a stack at its own rate."""
    for call, g, x in zip(calls, outer, inner, strict=True):
        weight = weights[call.weight]
        scaled = g.flatten(1, -2) * -lr.to(weight.dtype).reshape(-1, 1, 1)
        weight.baddbmm_(scaled.transpose(1, 2), x.flatten(1, -2))
