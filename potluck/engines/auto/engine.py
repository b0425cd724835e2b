"""The automatic engine: the batched engine on a GPU, and on a CPU a strategy for each kind of training, by a rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

from potluck.core.job import Job
from potluck.engines.auto.strategies import Kind, Strategy, Wave, choose, convolves, key_of, samples_seen
from potluck.engines.auto.workers import Failure, Forked, answer_in_workers, cores
from potluck.engines.base import Timed
from potluck.engines.batched.engine import Batched
from potluck.engines.hardware import computing_in
from potluck.learners.network import Network

STACKED_CONVOLUTIONS = 4
"""How many networks with convolutions are stacked on a CPU, where their grouped form is slow."""


class Auto(Batched):
    """Trains by the strategy that a fixed rule names, so that equal runs on one machine are equal bit by bit.

    Predictions are stacked, on a CPU without convolutions.
    """

    def _begin(self) -> None:
        super()._begin()
        self._kinds: dict[Hashable, Kind] = {}
        self._used: dict[str, list[str]] = {}
        """By which strategies each kind of training was carried out, for the run folder."""

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "strategies": self.strategies()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self._used = {kind: list(used) for kind, used in snapshot.get("strategies", {}).items()}

    def strategies(self) -> dict[str, list[str]]:
        """By which strategies each kind of training was carried out; several, where waves differ in who is there."""
        return {kind: list(used) for kind, used in self._used.items()}

    def decisions(self) -> dict[str, Any]:
        found = self.strategies()
        return {**super().decisions(), **({"strategies": found} if found else {})}

    def stacks(self, job: Job) -> bool:
        if self.device.type != "cpu" or not isinstance(job.learner, Network) or job.work.writes:
            return True
        return not convolves(job.learner.model)

    def _stack_size(self, job: Job, common: Collection[str] = ()) -> int:
        size = super()._stack_size(job, common)
        slow = self.device.type == "cpu" and isinstance(job.learner, Network) and convolves(job.learner.model)
        return min(size, STACKED_CONVOLUTIONS) if slow else size

    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        jobs = self.made_ready(jobs)
        answers = self._choose_and_train(jobs, self._by_kind(jobs)) if self.device.type == "cpu" else {}
        rest = [index for index in range(len(jobs)) if index not in answers]
        answers.update(zip(rest, super().timed([jobs[index] for index in rest]), strict=True))
        return [answers[index] for index in range(len(jobs))]

    def _choose_and_train(self, jobs: Sequence[Job], kinds: Mapping[Kind, Sequence[int]]) -> dict[int, Timed]:
        """Trains each kind by the strategy for it. ``kinds`` says where its trainings are among the jobs."""
        waves = [self._wave(kind, [jobs[index] for index in at]) for kind, at in kinds.items()]
        chosen: dict[int, Strategy] = {}
        for (kind, at), strategy in zip(kinds.items(), choose(waves, cores()), strict=True):
            chosen.update(dict.fromkeys(at, strategy))
            used = self._used.setdefault(kind.name, [])
            if strategy not in used:
                used.append(strategy)
        return self._carry_out(jobs, chosen)[0]

    def _by_kind(self, jobs: Sequence[Job]) -> dict[Kind, list[int]]:
        """The trainings of networks among jobs, those of a kind together."""
        found: dict[Kind, list[int]] = defaultdict(list)
        for index, job in enumerate(jobs):
            if job.work.writes and isinstance(job.learner, Network):
                key = key_of(job)
                if key not in self._kinds:
                    self._kinds[key] = Kind.of(job)
                found[self._kinds[key]].append(index)
        return found

    def _seconds(self, job: Job) -> float:
        """About how long a training takes on one core."""
        return self._kinds[key_of(job)].seconds(samples_seen(job))

    def _wave(self, kind: Kind, jobs: Sequence[Job]) -> Wave:
        return Wave(
            kind,
            [samples_seen(job) for job in jobs],
            stackable=len(self._stacks(jobs[:2])) < len(jobs[:2]),
            forkable=not self.changes_itself(jobs[0]),
        )

    def _carry_out(
        self, jobs: Sequence[Job], strategies: Mapping[int, Strategy]
    ) -> tuple[dict[int, Timed], dict[int, Failure]]:
        """Trains each of these jobs by its strategy. What workers cannot do is done here; why is reported besides."""
        by: dict[str, list[int]] = defaultdict(list)
        for index, strategy in strategies.items():
            by["workers" if strategy.startswith("workers") else strategy].append(index)
        answers: dict[int, Timed] = {}
        failures: dict[int, Failure] = {}
        with computing_in(self.precision):
            if by["workers"]:
                # The longest first, so that no core is left with a long one while the others have nothing to do.
                by["workers"].sort(key=lambda index: -self._seconds(jobs[index]))
                work = [Forked(jobs[index], strategies[index] == "workers, channels last") for index in by["workers"]]
                for index, found in zip(by["workers"], answer_in_workers(work), strict=True):
                    if isinstance(found, Failure):
                        failures[index] = found
                    else:
                        answers[index] = found
            for index in (*by["alone"], *failures):
                answers[index] = self._alone(jobs[index])
        for index, failure in failures.items():
            self._tell_failed(jobs[index], failure)
        answers.update(zip(by["stacked"], super().timed([jobs[index] for index in by["stacked"]]), strict=True))
        return answers, failures

    def _tell_failed(self, job: Job, failure: Failure) -> None:
        self._tell(
            f"A worker process could not train {type(job.learner.model).__name__}, which was then trained in the "
            f"run's own process: {failure.reason}"
        )
