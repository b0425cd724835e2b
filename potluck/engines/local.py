"""What every engine on this machine shares: driving the participants' sessions from exchange to exchange."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from potluck.engines.session import Done, Session
from potluck.learners.base import Learner
from potluck.method import Method, ServerSteps
from potluck.metrics import NOTHING, Metrics, measure
from potluck.participant import Participant
from potluck.payload import Payload
from potluck.requests import Exchange, Fit, Job, Predict, Tap
from potluck.samples import Samples
from potluck.server import Server


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
    """How many participants run together; None for all of them."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._sessions: dict[str, Session] = {}

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
        sessions = [Session(p, getattr(method, stage)(p), stage, keep_optimizer) for p in participants]
        self._sessions = {session.name: session for session in sessions}
        return self._run(dict.fromkeys(self._sessions))

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
            answer = self.answer([step])[0]
        return step.value

    def evaluate(self, tests: Mapping[str, tuple[Participant, Samples | None]]) -> dict[str, Metrics]:
        """Each participant's metrics on its test data."""
        jobs = {
            name: Job(name, Predict(test), p.learner, test, p.plan, p.seed, p.round)
            for name, (p, test) in tests.items()
            if test is not None
        }
        answers = dict(zip(jobs, self.answer(list(jobs.values())), strict=True))
        return {
            name: measure(answers[name], test.y) if test is not None else dict(NOTHING)
            for name, (_, test) in tests.items()
        }

    def _run(self, answers: Mapping[str, Any]) -> Iterator[Arrival]:
        names = list(answers)
        size = self.wave or max(1, len(names))
        for first in range(0, len(names), size):
            yield from self._run_wave({name: answers[name] for name in names[first : first + size]})

    def _run_wave(self, answers: dict[str, Any]) -> Iterator[Arrival]:
        while answers:
            jobs: dict[str, Job] = {}
            for name, answer in answers.items():
                session = self._sessions[name]
                began = time.perf_counter()
                step = session.advance(answer)
                session.seconds += time.perf_counter() - began
                if isinstance(step, Job):
                    jobs[name] = step
                elif isinstance(step, Exchange):
                    yield Arrival(name, step, seconds=session.seconds)
                else:
                    yield Arrival(name, None, step.value or {}, session.seconds)
            answers = {}
            for name, (answer, seconds) in zip(jobs, self.timed(list(jobs.values())), strict=True):
                self._sessions[name].seconds += seconds
                answers[name] = answer


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
