"""CUDA graphs: a step that is captured once and replayed, so that a GPU does not wait for Python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

log = logging.getLogger(__name__)

WARM_UP = 2
"""How often a step runs before it is captured, so that libraries have chosen their kernels."""


class Replayed:
    """A step of fixed shapes as a graph. It reads its inputs from, and changes its state in, tensors that stay."""

    def __init__(self, step: Callable[..., Tensor], inputs: Sequence[Tensor], state: Sequence[Tensor]) -> None:
        self._inputs = [tensor.clone() for tensor in inputs]
        before = [tensor.clone() for tensor in state]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side):
                for _ in range(WARM_UP):
                    step(*self._inputs)
        finally:
            torch.cuda.current_stream().wait_stream(side)
            for tensor, old in zip(state, before, strict=True):
                tensor.copy_(old)  # warming up must not count as training; capturing runs nothing
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = step(*self._inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        for static, tensor in zip(self._inputs, inputs, strict=True):
            static.copy_(tensor)
        self._graph.replay()
        return self._output.clone()


def replayed(step: Callable[..., Tensor], inputs: Sequence[Tensor], state: Sequence[Tensor]) -> Callable[..., Tensor]:
    """The step as a graph, or as it is, with a word why, if it cannot be captured."""
    try:
        return Replayed(step, inputs, state)
    except RuntimeError as error:
        log.warning("This training cannot be captured in a CUDA graph and runs step by step: %s", error)
        return step
