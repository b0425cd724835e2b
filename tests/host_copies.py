"""Finds what a training step copies from the host, without a GPU: tensors on the ``meta`` device stand for those there.

A CUDA graph cannot be captured of a step that copies from the host, and then all of it waits for Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from potluck.core.job import Job
from potluck.engines.batched.engine import Batched
from potluck.engines.batched.kernels.dispatch import stacked_layers
from potluck.engines.batched.stacking import Capacity
from potluck.engines.batched.trainer import Training
from potluck.learners.network import Network

META = torch.device("meta")
MAKES = (torch.tensor, torch.as_tensor, torch.asarray)
LOOKS_UP = (torch.Tensor.__getitem__, torch.Tensor.__setitem__)


class Operations(TorchDispatchMode):
    """Notes operations on both devices. A single number of the host's is handed over with the call, and is no copy.

    Args:
        found: where they are noted.
    """

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, Tensor)]
        here = [tensor for tensor in given if tensor.device.type == "cpu"]
        target = torch.device((kwargs or {}).get("device") or "cpu").type
        there = target == "meta" or any(tensor.device == META for tensor in given)
        moved = func in (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if there and any(moved or tensor.ndim for tensor in here):
            self._found.append(str(func))
        return func(*args, **(kwargs or {}))


class Constructions(TorchFunctionMode):
    """Notes what makes tensors of Python's numbers on the device, or looks up by lists of them.

    Args:
        found: where they are noted.
    """

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        there = torch.device((kwargs or {}).get("device") or "cpu") == META
        if func in MAKES and there and getattr(args[0], "device", None) != META:
            self._found.append(func.__name__)
            return torch.empty(np.shape(args[0]), dtype=(kwargs or {}).get("dtype"), device=META)
        if func in LOOKS_UP and args[0].device == META and any(isinstance(leaf, list) for leaf in _indices(args[1])):
            self._found.append(func.__name__)
        return func(*args, **(kwargs or {}))


def _indices(given: Any) -> tuple[Any, ...]:
    return given if isinstance(given, tuple) else (given,)


@contextmanager
def host_copies() -> Iterator[list[str]]:
    """What is copied inside from the host to the ``meta`` device."""
    found: list[str] = []
    with Constructions(found), Operations(found):
        yield found


def in_a_step(jobs: Sequence[Job]) -> list[str]:
    """What the first step of a stack of these trainings copies from the host."""
    training = Training(jobs, Capacity.of(jobs), META)
    training.load(jobs)
    if not training.turns:
        return []
    inputs = training._inputs(0)
    with stacked_layers(True), host_copies() as found:
        training._step(inputs, training._graph_key(training.turns[0]))
    return found


def watched(monkeypatch: Any) -> list[str]:
    """What is copied from the host in the first step of every training from now on, with whose it is.

    A network that is trained alone on a CPU is a stack of one on a GPU.
    """
    found: list[str] = []
    load, alone = Training.load, Batched._alone

    def look(jobs: Sequence[Job]) -> None:
        found.extend(f"{jobs[0].owner}, {jobs[0].fit.objective}: {copy}" for copy in in_a_step(jobs))

    def loading(self: Training, jobs: Sequence[Job]) -> None:
        if self.device != META:
            look(jobs)
        load(self, jobs)

    def answering(self: Batched, job: Job) -> Any:
        if job.work.writes and isinstance(job.learner, Network):
            look([job])
        return alone(self, job)

    monkeypatch.setattr(Training, "load", loading)
    monkeypatch.setattr(Batched, "_alone", answering)
    return found
