"""The serial engine: one participant after the other, plain PyTorch. It is what every other engine must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from potluck.core.requests import Job
from potluck.engines.base import LocalEngine, timed_alone
from potluck.engines.precision import computing_in


class Serial(LocalEngine):
    """The reference."""

    wave: ClassVar[int | None] = 1

    def timed(self, jobs: Sequence[Job]) -> list[tuple[Any, float]]:
        with computing_in(self.precision):
            return [timed_alone(job, self.device) for job in jobs]
