"""A job: work with everything filled in that a request leaves open, as a learner or an engine gets it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch

from potluck.core.groups import Group, within
from potluck.core.learner import Learner
from potluck.core.plan import Plan
from potluck.core.samples import Samples

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
