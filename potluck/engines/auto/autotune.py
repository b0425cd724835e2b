"""The engine that finds out by the clock which strategy is fastest for each kind of training on a CPU.

The first trainings of a kind take turns at the strategies (their results count like any other), and the fastest one
does the rest. The choice depends on the machine and on what else it does, and strategies differ in how they round, so
that two equal runs may differ by rounding. The choice is in the checkpoint: a run that goes on keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from potluck.core.job import Job
from potluck.engines.auto.engine import Auto
from potluck.engines.auto.strategies import Kind, Strategy, possible, samples_seen
from potluck.engines.auto.workers import Failure, cores
from potluck.engines.base import Timed

Timings = dict[str, dict[str, list[float]]]
"""For each kind and strategy the seconds for each sample that was trained on."""

TRIALS = 2
"""How many times a strategy is tried: the first time often pays for warming up."""

WORTH_TRYING = 0.5
"""From how many seconds of work on other strategies are tried; for less, the one that is usually best will do."""


class Trials:
    """What was found out so far."""

    def __init__(self) -> None:
        self.timings: Timings = {}
        self.failed: dict[str, list[str]] = {}
        """By which strategies a kind could not be trained."""

    def strategy(self, kind: str, possible: Sequence[Strategy], samples: int) -> tuple[Strategy, bool]:
        """How to carry out trainings of a kind on so many samples, and whether that is still a trial."""
        known = self.timings.get(kind, {})
        able = [strategy for strategy in possible if strategy not in self.failed.get(kind, ())]
        first = known.get(able[0], [])
        if len(first) >= TRIALS and len(known) == 1 and min(first) * samples < WORTH_TRYING:
            return able[0], False
        for strategy in able:
            if len(known.get(strategy, [])) < TRIALS:
                return strategy, True
        return min(able, key=lambda strategy: min(known[strategy])), False

    def note(self, kind: str, strategy: Strategy, seconds: float, samples: int) -> None:
        """Remembers how long a trial took."""
        self.timings.setdefault(kind, {}).setdefault(strategy, []).append(seconds / max(1, samples))

    def rule_out(self, kind: str, strategy: Strategy) -> None:
        """Remembers that trainings of a kind cannot be carried out in that way."""
        self.failed.setdefault(kind, []).append(strategy)
        self.timings.get(kind, {}).pop(strategy, None)

    def fastest(self) -> dict[str, str]:
        """The fastest strategy of every kind for which all were tried often enough to tell."""
        return {
            kind: min(known, key=lambda strategy: min(known[strategy]))
            for kind, known in self.timings.items()
            if len(known) > 1 and all(len(seconds) >= TRIALS for seconds in known.values())
        }

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"timings": self.timings, "failed": self.failed}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Takes up what ``snapshot`` gave, as far as this version knows the strategies."""
        names = get_args(Strategy)
        self.timings = {
            kind: {name: [float(each) for each in seconds] for name, seconds in known.items() if name in names}
            for kind, known in snapshot.get("timings", {}).items()
        }
        self.failed = {
            kind: [name for name in failed if name in names] for kind, failed in snapshot.get("failed", {}).items()
        }


@dataclass(frozen=True)
class Turn:
    """Trainings of one kind that worker processes are to carry out: where they are among the jobs, and how many samples
    all of the kind run over in this wave.

    Args:
        kind: the kind of training.
        strategy: how they are carried out.
        trial: whether the strategy is being tried out.
        at: where they are among the jobs.
        samples: how many samples all of the kind run over in this wave.
    """

    kind: Kind
    strategy: Strategy
    trial: bool
    at: Sequence[int]
    samples: int


class Autotune(Auto):
    """Trains by the strategy that proved fastest, where a training takes long enough to matter."""

    def _begin(self) -> None:
        super()._begin()
        self.trials = Trials()

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "trials": self.trials.snapshot()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        super().restore(snapshot)
        self.trials.restore(snapshot.get("trials", {}))

    def strategies(self) -> dict[str, list[str]]:
        """The fastest strategy for each kind of training, where it is known."""
        return {kind: [strategy] for kind, strategy in self.trials.fastest().items()}

    def _choose_and_train(self, jobs: Sequence[Job], kinds: Mapping[Kind, Sequence[int]]) -> dict[int, Timed]:
        """Some of each kind, until none is left: all of them where the strategy is known, else a trial's worth."""
        answers: dict[int, Timed] = {}
        left = {kind: list(at) for kind, at in kinds.items()}
        while left:
            forked: list[Turn] = []
            accompanied = sum(map(len, left.values())) > 1
            for kind, at in list(left.items()):
                wave = self._wave(kind, [jobs[index] for index in at])
                samples = sum(wave.samples)
                strategy, trial = self.trials.strategy(kind.name, possible(wave, accompanied, cores()), samples)
                taken = at[: self._trial_size(jobs[at[0]], strategy)] if trial else at
                left[kind] = at[len(taken) :]
                if not left[kind]:
                    del left[kind]
                turn = Turn(kind, strategy, trial, taken, samples)
                if strategy.startswith("workers"):
                    forked.append(turn)
                else:
                    answers.update(self._run_here(jobs, turn))
            answers.update(self._run_in_workers(jobs, forked))
        return answers

    def _trial_size(self, job: Job, strategy: Strategy) -> int:
        return {"alone": 1, "stacked": self._stack_size(job)}.get(strategy, 2 * cores())

    def _run_here(self, jobs: Sequence[Job], turn: Turn) -> dict[int, Timed]:
        began = time.perf_counter()
        answers, _ = self._carry_out(jobs, dict.fromkeys(turn.at, turn.strategy))
        if turn.trial:
            seen = sum(samples_seen(jobs[index]) for index in turn.at)
            self.trials.note(turn.kind.name, turn.strategy, time.perf_counter() - began, seen)
        return answers

    def _run_in_workers(self, jobs: Sequence[Job], turns: Sequence[Turn]) -> dict[int, Timed]:
        """All turns at once: one forking serves all."""
        began = time.perf_counter()
        answers, failures = self._carry_out(jobs, {index: turn.strategy for turn in turns for index in turn.at})
        took = time.perf_counter() - began
        for turn in turns:
            if turn.trial:
                self._note(jobs, turn, answers, failures, took * len(turn.at) / len(answers))
        return answers

    def _note(
        self,
        jobs: Sequence[Job],
        turn: Turn,
        answers: Mapping[int, Timed],
        failures: Mapping[int, Failure],
        took: float,
    ) -> None:
        """Charges a trial as if the whole wave had gone that way: forking and warming up are paid only once then."""
        if any(index in failures for index in turn.at):
            self.trials.rule_out(turn.kind.name, turn.strategy)
            return
        seen = {index: samples_seen(jobs[index]) for index in turn.at}
        each = min(answers[index][1] / max(1, seen[index]) for index in turn.at) / min(cores(), len(turn.at))
        once = max(0.0, took - each * sum(seen.values()))
        self.trials.note(turn.kind.name, turn.strategy, each * turn.samples + once, turn.samples)
