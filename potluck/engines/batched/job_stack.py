"""Jobs that are answered together, and what must be equal of them for that."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from potluck.core.architecture import Architecture
from potluck.core.job import Job
from potluck.engines.batched.stacking import held_once, networks
from potluck.learners.network import Network

UNCAPTURED = 10
"""From how many networks on a step of the whole stack is cheaper than a step of each, where none can be captured."""


class JobKey(NamedTuple):
    """What must be equal of jobs for them to be answered together.

    Args:
        work: what kind of work it is.
        architecture: the network's.
        asked: what the request says must be equal.
        course: of a training, how its batches are made and what its optimizers remember.
        scale: which bytes are scaled.
        inputs: what else is done to the inputs of a whole stack.
    """

    work: type
    architecture: Architecture
    asked: Hashable
    course: Hashable
    scale: str
    inputs: tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class JobStack:
    """Jobs to be answered together, and where they stand among all jobs.

    Args:
        key: what they have in common; None for one that is answered alone.
        jobs: the jobs.
        at: where they stand among all jobs.
    """

    key: JobKey | None
    jobs: list[Job]
    at: list[int]

    @property
    def writes(self) -> bool:
        return self.jobs[0].work.writes

    @property
    def small(self) -> bool:
        """Whether its networks are so few that without a graph they are better trained one by one."""
        return len(self.jobs) < UNCAPTURED

    @property
    def draws(self) -> bool:
        """Whether its networks draw random numbers while they train."""
        first = self.jobs[0]
        return isinstance(first.learner, Network) and first.learner.probe(first.samples, first.plan).draws

    @property
    def kind(self) -> str:
        """The class of the networks, for people."""
        return type(self.jobs[0].learner.model).__name__

    @cached_property
    def common(self) -> frozenset[str]:
        """The frozen parameters that its networks have in common."""
        return held_once(networks(self.jobs))

    def cut(self, size: int) -> list[JobStack]:
        """The stack in pieces of at most that size."""
        if size >= len(self.jobs):
            return [self]
        starts = range(0, len(self.jobs), size)
        return [JobStack(self.key, self.jobs[i : i + size], self.at[i : i + size]) for i in starts]
