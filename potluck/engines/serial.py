"""The serial engine: one participant after the other, plain PyTorch. It is what every other engine must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from potluck.engines.local import LocalEngine, answer_alone
from potluck.requests import Job


class Serial(LocalEngine):
    """The reference."""

    wave: ClassVar[int | None] = 1

    def answer(self, jobs: Sequence[Job]) -> list[Any]:
        return [answer_alone(job, self.device) for job in jobs]
