"""A dry run: everything happens but the training, so that one sees beforehand what would travel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from potluck.core.job import Job
from potluck.core.metrics import Scores
from potluck.core.model_spec import OWN
from potluck.core.party import Party
from potluck.core.samples import Samples
from potluck.engines.base import Answering, Timed
from potluck.engines.serial import Serial


class DryRun(Serial):
    """Every request says itself what it answers where nothing is trained."""

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        return [(job.work.dry_answer(job, self.device), 0.0) for job in jobs]

    def evaluate(
        self,
        parties: Mapping[str, Party],
        test_of: Callable[[Any], Samples | None],
        answering: Mapping[str, Answering],
    ) -> dict[str, Scores]:
        """Nothing: there is nothing to be seen in models that were not trained."""
        return {name: {OWN: party.task.nothing} for name, party in parties.items()}

    def evaluate_server(self, server: Party, test: Samples, answering: Mapping[str, Answering]) -> Scores:
        """Nothing, for the same reason."""
        return {}
