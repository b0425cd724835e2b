"""With how many threads torch computes: one where steps are so small that threads would mostly wait for each other.

On a machine with other work that waiting is most of the time: a thread that has done its part of a small step waits for
one that the system runs later. Only sizes decide, never the clock or the load, so equal runs stay equal bit by bit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from potluck.core.inputs import kinds_key
from potluck.core.job import Job
from potluck.engines.auto.strategies import operations
from potluck.learners.network import Network
from potluck.learners.schedule import rows_at_once

SMALL_STEP = 2e7
"""Up to how many multiplications and additions in a step, forward, one thread computes it."""


@dataclass
class Threads:
    """Chooses for each piece of work, and remembers how large networks are."""

    _operations: dict[Hashable, int] = field(default_factory=dict)

    @contextmanager
    def suiting(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Inside, torch has the threads that suit these jobs, which are computed one step for all of them at a time."""
        before = torch.get_num_threads()
        if not self._small(jobs):
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def _small(self, jobs: Sequence[Job]) -> bool:
        networks = [job for job in jobs if isinstance(job.learner, Network)]
        return bool(networks) and sum(self._operations_in_a_step(job) for job in networks) <= SMALL_STEP

    def _operations_in_a_step(self, job: Job) -> int:
        assert isinstance(job.learner, Network)
        size = min(job.plan.batch_size if job.work.writes else rows_at_once(job.samples), len(job.samples))
        weights: int = sum(weight.numel() for weight in job.learner.model.parameters())
        at_least = 2 * size * weights
        if at_least > SMALL_STEP:  # to count in more detail, the network is copied
            return at_least
        key = job.learner.architecture, kinds_key(job.samples.kinds)
        if key not in self._operations:
            self._operations[key] = operations(job)
        return self._operations[key] * size
