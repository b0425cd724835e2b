"""The automatic engine: the batched engine on a GPU, and on a CPU whatever is fastest for each architecture."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from potluck.engines.apart import Apart, answer_apart, workers
from potluck.engines.batched import Batched, Timed
from potluck.engines.local import timed_alone
from potluck.engines.ways import Choices, Way, check_choices, convolves, kind_of, samples_seen, ways_for
from potluck.learners.network import Network
from potluck.requests import Fit, Job

STACKED_CONVOLUTIONS = 4
"""How many networks with convolutions are stacked on a CPU, where their grouped form is slow."""

NEVER = 1e9
"""Seconds charged to a way that failed."""


@dataclass(frozen=True)
class Sent:
    """A training sent to a worker, by its number; how many samples those of its kind in the wave have in all."""

    kind: str
    way: Way
    trial: bool
    at: int
    wave: int


class Auto(Batched):
    """Trains in the way that proved fastest. Predictions are stacked, on a CPU without convolutions."""

    def _begin(self) -> None:
        super()._begin()
        self.choices = Choices()

    def snapshot(self) -> dict[str, Any]:
        return {"timings": self.choices.timings}

    def restore(self, kept: dict[str, Any]) -> None:
        self.choices.timings = check_choices(kept.get("timings", {}))

    def ways(self) -> dict[str, str]:
        return self.choices.chosen()

    def stacks(self, job: Job) -> bool:
        if self.device.type != "cpu" or not isinstance(job.learner, Network) or isinstance(job.work, Fit):
            return True
        return not convolves(job.learner.model)

    def _stack_size(self, job: Job) -> int:
        size = super()._stack_size(job)
        slow = self.device.type == "cpu" and isinstance(job.learner, Network) and convolves(job.learner.model)
        return min(size, STACKED_CONVOLUTIONS) if slow else size

    def _timed(self, jobs: Sequence[Job]) -> list[Timed]:
        kinds: dict[str, list[int]] = defaultdict(list)
        if self.device.type == "cpu":
            for index, job in enumerate(jobs):
                if isinstance(job.work, Fit) and isinstance(job.learner, Network):
                    kinds[kind_of(job)].append(index)
        choosing = {index for members in kinds.values() for index in members}
        rest = [index for index in range(len(jobs)) if index not in choosing]
        answers = dict(zip(rest, super()._timed([jobs[index] for index in rest]), strict=True))
        while kinds:
            self._pass(jobs, kinds, answers)
        return [answers[index] for index in range(len(jobs))]

    def _pass(self, jobs: Sequence[Job], kinds: dict[str, list[int]], answers: dict[int, Timed]) -> None:
        """Carries out some trainings of each kind: all that are left where the way is known, else a trial's worth."""
        apart: list[Sent] = []
        crowd = sum(len(left) for left in kinds.values())
        for kind, left in list(kinds.items()):
            first, samples = jobs[left[0]], sum(samples_seen(jobs[index]) for index in left)
            ways = ways_for(first, stackable=len(left) > 1, in_company=crowd > 1)
            way, trial = self.choices.way(kind, ways, samples)
            taken = left[: self._trial_size(first, way)] if trial else left
            kinds[kind] = left[len(taken) :]
            if not kinds[kind]:
                del kinds[kind]
            if way.startswith("apart"):
                apart += [Sent(kind, way, trial, index, samples) for index in taken]
                continue
            began = time.perf_counter()
            chosen = [jobs[index] for index in taken]
            found = super()._timed(chosen) if way == "stacked" else [timed_alone(job, self.device) for job in chosen]
            answers.update(zip(taken, found, strict=True))
            if trial:
                self.choices.note(kind, way, time.perf_counter() - began, sum(map(samples_seen, chosen)))
        self._apart(jobs, apart, answers)

    def _trial_size(self, job: Job, way: Way) -> int:
        sizes = {"alone": 1, "stacked": self._stack_size(job)}
        return sizes.get(way, 2 * workers())

    def _apart(self, jobs: Sequence[Job], sent: list[Sent], answers: dict[int, Timed]) -> None:
        """Hands trainings to worker processes; what they cannot do is done here."""
        if not sent:
            return
        began = time.perf_counter()
        found = answer_apart([Apart(jobs[one.at], one.way == "apart, channels last") for one in sent])
        took = time.perf_counter() - began
        for one, done in zip(sent, found, strict=True):
            answers[one.at] = done or timed_alone(jobs[one.at], self.device)
        for kind, way in {(one.kind, one.way): None for one in sent if one.trial}:
            mine = [(one, done) for one, done in zip(sent, found, strict=True) if (one.kind, one.way) == (kind, way)]
            self._note_apart(jobs, mine, took * len(mine) / len(sent))

    def _note_apart(self, jobs: Sequence[Job], mine: list[tuple[Sent, Timed | None]], took: float) -> None:
        """Charges a trial as if the whole wave had gone that way: forking and warming up are paid only once then."""
        first, seen = mine[0][0], [samples_seen(jobs[one.at]) for one, _ in mine]
        busy = [NEVER if done is None else done[1] for _, done in mine]
        each = min(b / max(1, s) for b, s in zip(busy, seen, strict=True)) / min(workers(), len(mine))
        once = max(0.0, took - each * sum(seen))
        self.choices.note(first.kind, first.way, each * first.wave + once, first.wave)
