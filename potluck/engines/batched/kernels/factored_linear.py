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

from potluck.core.plan import Plan


class Call(NamedTuple):
    """A linear layer's turn in a network's pass: whose weights, and the shape of what came out for each sample.

    Args:
        weight: the name of its weight.
        shape: what came out for each sample.
    """

    weight: str
    shape: tuple[int, ...]


def plain_sgd(plan: Plan) -> bool:
    """Whether a step of this plan is no more than weights − rate · gradient."""
    return plan.optimizer == "sgd" and not plan.momentum and not plan.weight_decay and plan.max_grad_norm is None


class OtherCallsError(Exception):
    """A network's linear layers were called otherwise than at its first step."""


class Watched(TorchFunctionMode):
    """While it is on, notes the calls of linear layers, and which parameters anything else looks at.

    Args:
        parameters: the network's parameters, by name.
        samples: how many samples there are in the pass.
    """

    def __init__(self, parameters: Mapping[str, Tensor], samples: int) -> None:
        super().__init__()
        self._names = {parameter: name for name, parameter in parameters.items()}  # equal to itself alone, as a key
        self._samples = samples
        self._calls: list[Call] = []
        self._seen_elsewhere: set[str] = set()
        self.inputs: list[Tensor] = []
        """What went into the layers whose gradients stay in factors."""

    def calls(self) -> tuple[Call, ...]:
        """The calls whose weights nothing but linear layers looks at, in their order."""
        return tuple(call for call in self._calls if call.weight not in self._seen_elsewhere)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output, others = func(*args, **(kwargs or {})), args
        linear = func is F.linear and len(args) > 1 and output.ndim > 1 and len(output) == self._samples
        if linear and args[1] in self._names:
            self._calls.append(Call(self._names[args[1]], tuple(output.shape[1:])))
            output, others = self._factor(self._calls[-1], args[0], output), (args[0], *args[2:])
        found = (self._names.get(leaf) for leaf in tree_leaves((others, kwargs)) if isinstance(leaf, Tensor))
        self._seen_elsewhere.update(name for name in found if name is not None)
        return output

    def _factor(self, call: Call, inputs: Tensor, output: Tensor) -> Tensor:
        return output


class Factored(Watched):
    """While it is on, layers keep what goes in, and add a zero to what comes out: its gradient is G.

    Args:
        parameters: the network's parameters, by name.
        samples: how many samples there are in the pass.
        expected: the calls whose gradients stay in factors.
        zeros: what is added to what comes out, for each of these calls.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], samples: int, expected: Sequence[Call], zeros: Sequence[Tensor]
    ) -> None:
        super().__init__(parameters, samples)
        self._expected, self._zeros = tuple(expected), zeros
        self._weights = {call.weight for call in expected}

    def check(self) -> None:
        """Raises OtherCallsError unless the calls were those expected, and nothing else looked at their weights."""
        if self.calls() != self._expected:
            raise OtherCallsError

    def _factor(self, call: Call, given: Tensor, output: Tensor) -> Tensor:
        if call.weight not in self._weights:
            return output
        place = len(self.inputs)
        if self._expected[place : place + 1] != (call,):
            raise OtherCallsError
        self.inputs.append(given)
        return output + self._zeros[place]


def subtract_products(
    weights: Mapping[str, Tensor], calls: Sequence[Call], outer: Sequence[Tensor], inner: Sequence[Tensor], lr: Tensor
) -> None:
    """weights − rate · GᵀX for each call, for every network of a stack at its own rate."""
    for call, g, x in zip(calls, outer, inner, strict=True):
        weight = weights[call.weight]
        scaled = g.flatten(1, -2) * -lr.to(weight.dtype).reshape(-1, 1, 1)
        weight.baddbmm_(scaled.transpose(1, 2), x.flatten(1, -2))
