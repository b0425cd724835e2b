"""Which jobs can be answered together: the same work, on networks of one architecture, on data of one shape."""

from __future__ import annotations

import types
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from potluck.core.model_view import FrozenModel
from potluck.core.plan import Plan
from potluck.core.requests import Job, Predict, Tap
from potluck.learners.network import Network

STACKABLE_OPTIMIZERS = ("sgd", "adam", "adamw")


class Architectures:
    """Numbers for architectures: each module is looked at once, until ``look_again``."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._seen: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()

    def number(self, module: nn.Module) -> int:
        """Modules of one architecture have one number."""
        if module not in self._seen:
            self._seen[module] = self._numbers.setdefault(architecture(module), len(self._numbers))
        return self._seen[module]

    def look_again(self) -> None:
        """Modules may have been changed since."""
        self._seen.clear()


def likeness(job: Job, architectures: Architectures) -> Hashable | None:
    """Jobs of equal likeness can be stacked. None: this one cannot be stacked with any other."""
    if not isinstance(job.learner, Network):
        return None
    shared = (type(job.work), architectures.number(job.learner.model), job.plan.transform)
    if isinstance(job.work, Predict):
        return (*shared, job.work.logits, len(job.samples), _columns({"x": job.samples.x}))
    if isinstance(job.work, Tap):
        return (
            *shared,
            tuple(job.work.at),
            tuple(job.work.submodules),
            len(job.samples),
            _columns({"x": job.samples.x}),
        )
    if job.plan.optimizer not in STACKABLE_OPTIMIZERS:
        return None
    work = job.work
    return (
        *shared,
        work.objectives,
        work.combine_gradients,
        work.freeze_norm_stats,
        _plan(job.plan),
        _columns(job.samples.columns),
        _tree(work.context),
        _tree(work.mask),
        tuple(work.noise.items()),
        job.keep_optimizer,
        tuple(sorted(job.learner.remembered(job))),
    )


def architecture(module: nn.Module) -> Hashable:
    """What two modules have in common when the code of one, run on the weights of the other, is that other.

    Modules are compared part by part: class, every plain attribute, every tensor's shape. An attribute that is not
    plain makes the module like no other, which costs speed and never correctness.
    """
    parts: list[Hashable] = []
    for path, part in module.named_modules():
        attributes = tuple((n, _token(v)) for n, v in sorted(vars(part).items()) if n not in _EMPTY)
        tensors = (*part._parameters.items(), *part._buffers.items())
        parts.append((path, type(part), attributes, tuple((n, _tensor(t)) for n, t in tensors)))
    return tuple(parts)


# What every module has: containers looked at separately, the mode (set anew for each job), and hooks.
_EMPTY = {name for name in vars(nn.Module()) if not name.endswith("hooks")}


_PLAIN = (str, int, float, bool, bytes, type(None), torch.dtype, torch.device, type)
_CODE = (types.FunctionType, types.BuiltinFunctionType)


@dataclass(frozen=True, eq=False)
class _Itself:
    """Something that is like nothing else. It is held, so that nothing else can take its place in memory."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _token(value: Any) -> Hashable:
    if isinstance(value, (*_PLAIN, *_CODE)):
        return value
    if isinstance(value, list | tuple):
        return (type(value), *(_token(item) for item in value))
    if isinstance(value, Mapping):
        if not value:
            return ()
        return tuple(sorted(((str(name), _token(item)) for name, item in value.items()), key=lambda pair: pair[0]))
    if isinstance(value, set | frozenset):
        return frozenset(_token(item) for item in value)
    return _Itself(value)


def _tensor(tensor: Tensor | None) -> Hashable:
    return None if tensor is None else (*_spec(tensor), tensor.requires_grad)


def _spec(tensor: Tensor) -> tuple[Hashable, ...]:
    return tuple(tensor.shape), tensor.dtype


def _columns(columns: Mapping[str, Tensor]) -> Hashable:
    return tuple(sorted((name, tuple(column.shape[1:]), str(column.dtype)) for name, column in columns.items()))


def _plan(plan: Plan) -> Hashable:
    """A plan without what may differ inside a stack: the learning rate, and how samples are cut into steps."""
    free = ("lr", "schedule", "epochs", "batch_size")
    return tuple((name, getattr(plan, name)) for name in Plan.model_fields if name not in free)


def _tree(given: Any) -> Hashable:
    leaves, structure = tree_flatten(dict(given))
    return str(structure), tuple(_leaf(leaf) for leaf in leaves)


def _leaf(leaf: Any) -> Hashable:
    if isinstance(leaf, Tensor):
        return _spec(leaf)
    if isinstance(leaf, FrozenModel):
        body = None if leaf.module is None else architecture(leaf.module)
        return body, tuple(sorted((name, *map(str, _spec(entry))) for name, entry in leaf.weights.items()))
    return _token(leaf)
