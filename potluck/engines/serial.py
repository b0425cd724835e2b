"""The serial engine: one participant after the other, plain PyTorch. It is what every other engine must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from potluck.core.job import Job
from potluck.engines.base import Engine, Timed


class Serial(Engine):
    """The reference."""

    together: ClassVar[int | None] = 1

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        with self.computing():
            return [self.alone(job) for job in self.made_ready(jobs)]
