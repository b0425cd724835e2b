"""A job: work with everything filled in that a request leaves open, as a learner or an engine gets it; and what must be
equal of jobs for their networks to be stacked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from potluck.core.architecture import spec, token
from potluck.core.errors import ModelError, nearest
from potluck.core.groups import Group, check_places, within
from potluck.core.learner import Learner
from potluck.core.model_view import FrozenModel
from potluck.core.plan import Plan
from potluck.core.samples import Samples
from potluck.core.tasks import Task

if TYPE_CHECKING:
    from potluck.core.requests import Fit, Reading, Work

OptimizerState = dict[str, dict[str, Any]]
"""Parameter name → what the optimizer remembers of it, under torch's own names."""


@dataclass(frozen=True, eq=False)
class Job:
    """Work with everything filled in.

    Args:
        owner: the name of the party that asked for it.
        work: what is to be done.
        learner: the model.
        samples: the samples.
        plan: the plan.
        seed: what random numbers derive from.
        round: the round.
        keep_optimizer: whether the optimizer's state lasts until the next training; by default False.
        groups: parameters with plans of their own, the first one that names a parameter first; by default none.
        fresh: of several models, those whose optimizers start anew all the same; by default none.
    """

    owner: str
    work: Work
    learner: Learner
    samples: Samples
    plan: Plan
    seed: int
    round: int
    keep_optimizer: bool = False
    groups: tuple[Group, ...] = ()
    fresh: frozenset[str] = frozenset()

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans that parameters follow: first the training's own, then each group's."""
        return (self.plan, *(group.plan for group in self.groups))

    @property
    def plan_of(self) -> Callable[[str], Plan | None]:
        """Parameter name → the plan by which it is trained; None if it stays as it is."""
        plans, place_of = self.plans, self._place_of()
        return lambda parameter: None if (place := place_of(parameter)) is None else plans[place]

    def by_plan(self, parameters: Iterable[str]) -> list[list[str]]:
        """Those parameters that are trained, sorted by the plans that they follow."""
        found: list[list[str]] = [[] for _ in self.plans]
        place_of = self._place_of()
        for parameter in parameters:
            if (place := place_of(parameter)) is not None:
                found[place].append(parameter)
        return found

    def check_names(
        self, trainable_of: Callable[[], Mapping[str, Tensor]], frozen_of: Callable[[], Mapping[str, Tensor]]
    ) -> None:
        """Raises ModelError unless a training names what a network has, its masks fit, and noise hides no column.

        Args:
            trainable_of: gives the network's trainable parameters by name, where they are needed.
            frozen_of: gives its other parameters by name.
        """
        trainable = trainable_of() if self.fit.mask or self.fit.groups else {}
        for name, mask in self.fit.mask.items():
            if name not in trainable:
                raise ModelError(f"The model has no trainable parameter {name!r}.{nearest(name, trainable)}")
            if not _fits(mask, trainable[name]):
                raise ModelError(
                    f"The mask of {name!r} has shape {tuple(mask.shape)}, which does not broadcast to the parameter's, "
                    f"{tuple(trainable[name].shape)}."
                )
        for name in self.fit.noise:
            if name in self.samples.columns:
                raise ModelError(f"Noise named {name!r} would take the place of the samples' column; rename it.")
        for group in self.fit.groups:
            check_places(group.names, [*trainable, *frozen_of()], trainable)

    def _place_of(self) -> Callable[[str], int | None]:
        """Parameter name → the place of its plan among ``plans``; None if it is not trained."""
        only = [update.only for update in self.fit.updates]
        trained = None if None in only else [name for places in only for name in places or ()]
        if trained is None and not self.groups:
            return lambda parameter: 0

        def place_of(parameter: str) -> int | None:
            if trained is not None and not within(parameter, trained):
                return None
            owners = (place for place, group in enumerate(self.groups, 1) if within(parameter, group.names))
            return next(owners, 0)

        return place_of

    @property
    def fit(self) -> Fit:
        """The work of a job that trains."""
        return cast("Fit", self.work)

    @property
    def reading(self) -> Reading:
        """The work of a job that reads."""
        return cast("Reading", self.work)

    def answer(self, device: torch.device) -> Any:
        """Has the learner do the work, unstacked: the reference."""
        return self.work.answer(self, device)


def _fits(mask: Tensor, parameter: Tensor) -> bool:
    """Whether a mask broadcasts to a parameter."""
    try:
        mask.expand(parameter.shape)
    except RuntimeError:
        return False
    return True


_PLAIN = (str, int, float, bool, bytes, type(None), Task)
_FREE = ("lr", "schedule", "epochs", "batch_size", "class_weight", "transform", "augment", "scale")


def steps_of(plan: Plan) -> Hashable:
    """What must be equal of plans for networks to take their steps in one stack."""
    return tuple((name, getattr(plan, name)) for name in Plan.model_fields if name not in _FREE)


def columns_of(samples: Samples, inputs_alone: bool = False) -> Hashable:
    """Names, shapes and types of columns, perhaps of those alone that hold inputs."""
    held = (samples.input_columns if inputs_alone else samples.columns).items()
    columns = sorted((name, tuple(column.shape[1:]), str(column.dtype)) for name, column in held)
    return tuple(columns), None if samples.source is None else samples.source.types()


def values_of(named: Mapping[str, Any]) -> Hashable:
    """Plain values as they are, of tensors shapes and types alone, in whatever they are nested."""
    flat: list[Hashable] = []
    for name, value in named.items():
        if isinstance(value, Tensor):
            flat.append((name, (tuple(value.shape), value.dtype)))
        elif isinstance(value, _PLAIN):
            flat.append((name, value))
        else:
            leaves, structure = tree_flatten(dict(named))
            return str(structure), tuple(_leaf(leaf) for leaf in leaves)
    return tuple(flat)  # mostly, and quicker than by a tree


def _leaf(leaf: Any) -> Hashable:
    if isinstance(leaf, _PLAIN):
        return leaf
    if isinstance(leaf, Tensor):
        return tuple(leaf.shape), leaf.dtype
    if isinstance(leaf, FrozenModel):
        return leaf.architecture, tuple(sorted((name, str(spec(entry))) for name, entry in leaf.weights.items()))
    return token(leaf)
