"""What every engine on this machine shares: driving the participants' sessions from exchange to exchange."""

from __future__ import annotations

import copy
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from potluck.clock import Clock
from potluck.engines.session import Done, Session
from potluck.learners.base import Learner
from potluck.method import Method, ServerSteps
from potluck.metrics import NOTHING, Metrics, measure
from potluck.participant import Participant
from potluck.payload import Payload
from potluck.requests import Exchange, Fit, Job, Predict, Tap
from potluck.samples import Samples
from potluck.server import Server

if TYPE_CHECKING:
    from potluck.resting import Resting

PHASES: dict[type, str] = {Fit: "train", Predict: "predict", Tap: "tap"}

ROOM = 0.5
"""The share of the free memory that a wave may take."""


@dataclass(frozen=True, eq=False)
class Arrival:
    """A participant has come to an exchange, or (``exchange`` None) to the end of its half.

    ``failed``: why its half ended early, as when it did not answer in time. ``received``: bytes that were sent to it
    besides the server's replies, as public data are.
    """

    sender: str
    exchange: Exchange | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    failed: str | None = None
    received: int = 0


class LocalEngine(ABC):
    """Runs participants in waves. How it answers their work is what tells one engine from another."""

    wave: ClassVar[int | None] = None
    """How many participants run together, where the engine does not look at the memory there is."""

    def __init__(self, device: torch.device, precision: str = "torch") -> None:
        self.device, self.precision = device, precision
        self._begin()

    def fresh(self) -> Self:
        """An engine of the same settings that knows of no federation yet: each one works with its own."""
        other = copy.copy(self)
        other._begin()
        return other

    def _begin(self) -> None:
        """Sets everything that comes from a federation to what it is before the first one."""
        self.clock = Clock(self.device)
        """Times what the engine does, if it is on."""
        self.asked_wave: int | None = None
        """How many participants run together, where a user decides."""
        self.resting: Resting | None = None
        """Where participants rest between waves, if they do."""
        self._sessions: dict[str, Session] = {}
        self._wave = 1

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint must keep of the engine, so that a run that goes on is carried out in the same way."""
        return {}

    def restore(self, kept: dict[str, Any]) -> None:
        """Takes up what ``snapshot`` gave."""
        return

    def ways(self) -> dict[str, str]:
        """In which way each architecture is trained, where the engine found out which is fastest."""
        return {}

    @abstractmethod
    def timed(self, jobs: Sequence[Job]) -> list[tuple[Any, float]]:
        """Carries out the work of many parties, in any order; answers and seconds are in the order given."""

    def answer(self, jobs: Sequence[Job]) -> list[Any]:
        """The answers alone."""
        return [answer for answer, _ in self.timed(jobs)]

    def present(self, names: Iterable[str]) -> list[str]:
        """Which of these participants are there: on this machine all of them."""
        return list(names)

    def start(
        self, stage: str, method: Method, participants: Iterable[Participant], keep_optimizer: bool
    ) -> Iterator[Arrival]:
        """Begins a stage, "join" or "round", at each participant and runs it to its first exchange."""
        people = list(participants)
        self._wave = self.asked_wave or self.wave or self.wave_size(people)
        sessions = [Session(p, getattr(method, stage)(p), stage, keep_optimizer) for p in people]
        self._sessions = {session.name: session for session in sessions}
        return self._run(dict.fromkeys(self._sessions))

    def wave_size(self, participants: Sequence[Participant]) -> int:
        """How many participants may run together: as many as fit into the free memory, by a careful estimate."""
        largest = max((participant.working_bytes for participant in participants), default=0)
        return max(1, int(ROOM * free_memory(self.device)) // max(1, largest))

    def resume(self, replies: Mapping[str, Payload]) -> Iterator[Arrival]:
        """Hands each participant the server's reply and runs it to its next exchange."""
        return self._run(replies)

    def dismiss(self, name: str) -> None:
        """Ends a participant's round early, as when its answer was refused."""
        self._sessions.pop(name).close()

    def serve(self, server: Server, steps: ServerSteps, exchange: str) -> Any:
        """Carries out a server's half that asks for work of its own, and returns its replies."""
        session, answer = Session(server, steps, f"serve {exchange}"), None
        while not isinstance(step := session.advance(answer), Done):
            assert isinstance(step, Job), "The server has nobody to exchange with."
            answer = self._timed_by_kind([step])[0][0]
        return step.value

    def evaluate(self, tests: Mapping[str, tuple[Participant, Samples | None]]) -> dict[str, Metrics]:
        """Each participant's metrics on its test data, wave by wave."""
        found: dict[str, Metrics] = {}
        for names in self._waves(list(tests)):
            found.update(self._evaluate({name: tests[name] for name in names}))
            self._let_rest([tests[name][0] for name in names])
        return found

    def _evaluate(self, tests: Mapping[str, tuple[Participant, Samples | None]]) -> Iterator[tuple[str, Metrics]]:
        jobs = {
            name: Job(name, Predict(test), p.learner, test, p.plan, p.seed, p.round)
            for name, (p, test) in tests.items()
            if test is not None
        }
        answers = dict(zip(jobs, self.answer(list(jobs.values())), strict=True))
        for name, (_, test) in tests.items():
            yield name, measure(answers[name], test.y) if test is not None else dict(NOTHING)

    def _waves(self, names: list[str]) -> Iterator[list[str]]:
        """Those who run together, one group after the other; none of a group goes to rest while it runs."""
        for first in range(0, len(names), self._wave):
            wave = names[first : first + self._wave]
            if self.resting is not None:
                self.resting.hold(wave)
            yield wave

    def _let_rest(self, participants: Iterable[Participant]) -> None:
        if self.resting is not None:
            self.resting.rest(participants)

    def _run(self, answers: Mapping[str, Any]) -> Iterator[Arrival]:
        for names in self._waves(list(answers)):
            parties = [self._sessions[name].party for name in names]
            yield from self._run_wave(names, answers)
            self._let_rest(party for party in parties if isinstance(party, Participant))

    def _run_wave(self, names: list[str], answers: Mapping[str, Any]) -> Iterator[Arrival]:
        while names:
            jobs: dict[str, Job] = {}
            for name in names:
                with self.clock("merge"):
                    answer = answers[name]  # a reply is made when it is asked for
                session = self._sessions[name]
                began = time.perf_counter()
                with self.clock("method"):
                    step = session.advance(answer)
                session.seconds += time.perf_counter() - began
                if isinstance(step, Job):
                    jobs[name] = step
                elif isinstance(step, Exchange):
                    yield Arrival(name, step, seconds=session.seconds)
                else:
                    del self._sessions[name]
                    yield Arrival(name, None, step.value or {}, session.seconds)
            found = {}
            for name, (answer, seconds) in zip(jobs, self._timed_by_kind(list(jobs.values())), strict=True):
                self._sessions[name].seconds += seconds
                found[name] = answer
            names, answers = list(found), found

    def _timed_by_kind(self, jobs: Sequence[Job]) -> list[tuple[Any, float]]:
        """``timed``, and where the clock is on, training, predicting and tapping apart."""
        if not self.clock.on:
            return self.timed(jobs)
        answers: dict[int, tuple[Any, float]] = {}
        for kind, phase in PHASES.items():
            own = [index for index, job in enumerate(jobs) if isinstance(job.work, kind)]
            if own:
                with self.clock(phase):
                    answers.update(zip(own, self.timed([jobs[index] for index in own]), strict=True))
        return [answers[index] for index in range(len(jobs))]


def free_memory(device: torch.device) -> int:
    """How many bytes are free on a device; on a CPU, what the system says is available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def timed_alone(job: Job, device: torch.device) -> tuple[Any, float]:
    """``answer_alone``, and the seconds it took."""
    began = time.perf_counter()
    try:
        answer = answer_alone(job, device)
    except Exception as error:
        error.add_note(f"This happened at {job.owner}, in round {job.round}, on {type(job.work).__name__}.")
        raise
    return answer, time.perf_counter() - began


def answer_alone(job: Job, device: torch.device) -> Any:
    """Has the learner itself do the work: the reference."""
    learner: Learner = job.learner
    if isinstance(job.work, Fit):
        return learner.fit(job, device)
    if isinstance(job.work, Predict):
        return learner.predict(job, device)
    assert isinstance(job.work, Tap)
    return learner.tap(job, device)
