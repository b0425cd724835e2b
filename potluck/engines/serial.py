"""The serial engine: one participant after the other, plain PyTorch. It is what every other engine must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from potluck.core.requests import Job
from potluck.engines.base import Engine, Timed, timed_alone


class Serial(Engine):
    """The reference."""

    together: ClassVar[int | None] = 1

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        with self.computing():
            return [timed_alone(job, self.device) for job in jobs]
