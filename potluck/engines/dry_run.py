"""A dry-run: everything happens but the training, so that one sees beforehand what would travel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from potluck.core.requests import Fit, Job
from potluck.core.samples import Samples
from potluck.core.tasks import NOTHING, Metrics
from potluck.engines.base import answer_alone
from potluck.engines.serial import Serial
from potluck.federation.participant import Participant
from potluck.learners.base import Fitted
from potluck.learners.network import Network


class DryRun(Serial):
    """Networks stay as they are; estimators, which cannot answer unfitted, are fitted on a few samples."""

    def timed(self, jobs: Sequence[Job]) -> list[tuple[Any, float]]:
        return [(self._answer(job), 0.0) for job in jobs]

    def _answer(self, job: Job) -> Any:
        if not isinstance(job.work, Fit):
            return answer_alone(job, self.device)
        if isinstance(job.learner, Network):
            return Fitted(steps=0)
        return answer_alone(replace(job, samples=job.samples.few_of_each()), self.device)

    def evaluate(self, tests: Mapping[str, tuple[Participant, Samples | None]]) -> dict[str, Metrics]:
        """Nothing: there is nothing to be seen in models that were not trained."""
        return {name: dict(NOTHING) for name in tests}
