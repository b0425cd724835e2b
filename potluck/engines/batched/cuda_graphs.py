"""CUDA graphs: a step that is captured once and replayed, so that a GPU does not wait for Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from potluck.engines.hardware import out_of_memory

StepFunction = Callable[[Any], Tensor]
"""A step. Its inputs are tensors in tuples, lists and dicts."""


class Replayed:
    """A step of fixed shapes as a graph. It reads its inputs from, and changes its state in, tensors that stay.

    Capturing changes the state: whoever captures writes it afterwards. Graphs of one ``pool`` share their memory and
    must not run at the same time. Nor must graphs captured on one ``stream``: cuBLAS has one workspace for each stream
    and uses it wherever the graph is replayed, so that two at once would spoil each other's products.

    Args:
        step: the step.
        inputs: tensors like those that it will read.
        stream: what it is captured on.
        pool: the memory that it may share with other graphs.
        try_kernels: whether cuDNN tries out its kernels before it is captured.
    """

    def __init__(self, step: StepFunction, inputs: Any, stream: Any, pool: Any, try_kernels: bool) -> None:
        self._inputs = tree_map(Tensor.clone, inputs)
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream), _kernels(try_kernels):
                step(self._inputs)  # so that libraries have made what they need, and chosen their kernels
        finally:
            torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with _nothing_freed(), torch.cuda.graph(self._graph, pool=pool, stream=stream), _kernels(try_kernels):
            self._output = step(self._inputs)

    def __call__(self, inputs: Any) -> Tensor:
        for tensor, new in zip(tree_leaves(self._inputs), tree_leaves(inputs), strict=True):
            tensor.copy_(new)
        self._graph.replay()
        return self._output.clone()


@contextmanager
def _kernels(tried: bool) -> Iterator[None]:
    """Has cuDNN try its kernels and take the fastest, or the one that it expects to be."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = tried
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def _nothing_freed() -> Iterator[None]:
    """Keeps Python from looking for garbage: to free an older graph while another is captured spoils the capture."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class CaptureError(Exception):
    """A step cannot be captured; says why."""


def replayed(step: StepFunction, inputs: Any, stream: Any, pool: Any, try_kernels: bool) -> Replayed:
    """The step as a graph; CaptureError if it cannot be captured.

    To ``try_kernels`` takes longer than all the rest, and pays where very many networks are trained for very long.
    """
    try:
        return Replayed(step, inputs, stream, pool, try_kernels)
    except RuntimeError as error:
        if out_of_memory(error):
            raise
        raise CaptureError(str(error)) from None
