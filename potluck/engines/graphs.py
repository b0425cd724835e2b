"""CUDA graphs: a step that is captured once and replayed, so that a GPU does not wait for Python."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger(__name__)

WARM_UP = 2
"""How often a step runs before it is captured, so that libraries have chosen their kernels."""

Inputs = dict[str, Tensor]
StepFunction = Callable[[Inputs], Tensor]


class Replayed:
    """A step of fixed shapes as a graph. It reads its inputs from, and changes its state in, tensors that stay.

    Capturing changes the state: whoever captures writes it afterwards. Graphs of one ``pool`` share their memory and
    must not run at the same time.
    """

    def __init__(self, step: StepFunction, inputs: Inputs, pool: Any) -> None:
        self._inputs = {name: tensor.clone() for name, tensor in inputs.items()}
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(side), _fastest_kernels():
                for _ in range(WARM_UP):
                    step(self._inputs)
        finally:
            torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool), _fastest_kernels():
            self._output = step(self._inputs)

    def __call__(self, inputs: Inputs) -> Tensor:
        for name, tensor in self._inputs.items():
            tensor.copy_(inputs[name])
        self._graph.replay()
        return self._output.clone()


@contextmanager
def _fastest_kernels() -> Iterator[None]:
    """Has cuDNN try its kernels and take the fastest, which pays for a step that is replayed often."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def replayed(step: StepFunction, inputs: Inputs, pool: Any) -> StepFunction:
    """The step as a graph, or as it is, with a word why, if it cannot be captured."""
    try:
        return Replayed(step, inputs, pool)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        log.warning("This training cannot be captured in a CUDA graph and runs step by step: %s", error)
        return step
