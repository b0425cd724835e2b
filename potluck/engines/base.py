"""What all engines share: parties run from exchange to exchange, a few at a time; their work is answered together."""

from __future__ import annotations

import copy
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import torch

from potluck.core.party import Party
from potluck.core.payload import Payload
from potluck.core.profiler import Profiler
from potluck.core.requests import Exchange, Job, Request
from potluck.core.samples import Samples
from potluck.core.tasks import NOTHING, Scores, measure
from potluck.engines.hardware import computing_in, free_memory, total_memory
from potluck.engines.session import OWN, Answering, AnsweringSession, Done, Half, Session
from potluck.engines.threads import Threads

log = logging.getLogger(__name__)

USABLE = 0.5
"""The share of the free memory that those who run together may take."""

STEADY = 0.5
"""The share of a device's memory beyond which it does not matter how much is free: so two runs count on the same."""

Timed = tuple[Any, float]
"""An answer, and the seconds it took."""


class Storage(Protocol):
    """Where parties are while others run."""

    def pin(self, parties: Sequence[Party]) -> None:
        """Has these in memory until others are pinned or ``evict`` is called."""

    def evict(self, parties: Iterable[Party]) -> None:
        """Puts these away; nobody is pinned any more."""


@dataclass(frozen=True)
class Arrival:
    """A participant has come to an exchange, or (``exchange`` None) to the end of its half.

    Args:
        sender: the participant's name.
        exchange: the exchange it has come to.
        notes: what its half returned for the history, at the end.
        seconds: how long it has worked so far.
        steps: how many optimizer steps it has taken so far.
        failed: why its half ended early, as when it did not answer in time.
        received: bytes that were sent to it besides the server's replies, as public data are.
    """

    sender: str
    exchange: Exchange | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0
    failed: str | None = None
    received: int = 0


class Engine(ABC):
    """Runs parties, some of them together. How it answers their work is what tells one engine from another.

    Args:
        device: what networks compute on.
        precision: what they compute in.
    """

    together: ClassVar[int | None] = None
    """How many parties run together, where the engine does not look at the memory there is."""

    def __init__(self, device: torch.device, precision: str = "torch") -> None:
        self.device, self.precision = device, precision
        self._begin()

    def _begin(self) -> None:
        """Sets everything that belongs to a federation to what it is before the first one."""
        self.max_concurrent: int | None = None
        """How many parties run together, where a user decides."""
        self.storage: Storage | None = None
        """Where parties are while others run, if not in memory."""
        self.profiler: Profiler | None = None
        """Times what the engine does, where somebody asked for it."""
        self.incidents: list[str] = []
        """What went another way than planned, for the run's summary."""
        self._memory: int | None = None
        self._threads = Threads()
        self._sessions: dict[str, Session] = {}
        self._places: dict[str, int] = {}
        """Where each party stands among all who began the phase: this decides with whom it runs, whoever drops out."""
        self._together = 1

    def fresh(self) -> Self:
        """An engine of the same settings that knows of no federation yet: each one works with its own."""
        other = copy.copy(self)
        other._begin()
        return other

    def profile(self) -> Profiler:
        """Has it time its phases from now on."""
        self.profiler = self.profiler or Profiler(self.device)
        return self.profiler

    def timing(self, phase: str) -> AbstractContextManager[None]:
        """Counts what happens inside as this phase, if anybody profiles."""
        return _NOTHING if self.profiler is None else self.profiler(phase)

    def computing(self) -> AbstractContextManager[None]:
        """Everything inside computes in the engine's precision."""
        return _NOTHING if self.precision == "torch" else computing_in(self.precision)

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint must keep of the engine, so that a run that goes on is carried out in the same way."""
        return {"engine": self.described(), "memory": self._memory}

    def described(self) -> dict[str, Any]:
        """Which engine it is, and what of the machine decides how its results are rounded."""
        cores = {"cores": torch.get_num_threads()} if self.device.type == "cpu" else {}
        return {"name": type(self).__name__.lower(), "device": str(self.device), **cores}

    def restore(self, kept: dict[str, Any]) -> None:
        """Takes up what ``snapshot`` gave. Says so where another engine gave it, or one on other hardware."""
        self._memory = kept.get("memory")
        before, now = kept.get("engine"), self.described()
        if before is not None and before != now:
            self._tell(
                f"The run goes on with {_in_words(now)}; up to here it was {_in_words(before)}. Results can differ by "
                f"rounding from those of a run without the change."
            )

    def decisions(self) -> dict[str, Any]:
        """What it decided by itself, or by what it found, for the run folder."""
        cores = {name: value for name, value in self.described().items() if name == "cores"}
        return {**cores, **({"memory": self._memory} if self._memory is not None else {})}

    def _tell(self, incident: str) -> None:
        """Says once what goes another way than planned, and keeps it for the run's summary."""
        if incident not in self.incidents:
            log.warning("%s", incident)
            self.incidents.append(incident)

    def report(self) -> dict[str, Any]:
        """What a run's summary says of the engine."""
        profile = {} if self.profiler is None else {"profile": dict(self.profiler.seconds)}
        return {"decisions": self.decisions(), "incidents": list(self.incidents), **profile}

    @abstractmethod
    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        """Carries out the work of many parties, in any order; answers and seconds are in the order given."""

    def alone(self, job: Job) -> Timed:
        """One job answered by its learner itself."""
        with self._threads.suiting([job], self.device):
            return timed_alone(job, self.device)

    def answer(self, jobs: Sequence[Job]) -> list[Any]:
        """The answers alone."""
        return [answer for answer, _ in self.timed(jobs)]

    def present(self, names: Iterable[str]) -> list[str]:
        """Which of these participants are there: on this machine all of them."""
        return list(names)

    def start(self, phase: str, parties: Iterable[Party], half: Half, keep_optimizer: bool) -> Iterator[Arrival]:
        """Begins a phase, "join" or "round", at each party and runs it to its first exchange."""
        people = list(parties)
        self._together = self._how_many(people)
        self._places = {party.name: place for place, party in enumerate(people)}
        sessions = [Session(party, half(party), phase, keep_optimizer) for party in people]
        self._sessions = {session.party.name: session for session in sessions}
        return self._run(dict.fromkeys(self._sessions))

    def resume(self, replies: Mapping[str, Payload]) -> Iterator[Arrival]:
        """Hands each participant the server's reply and runs it to its next exchange."""
        return self._run(replies)

    def dismiss(self, name: str) -> None:
        """Ends a participant's half early, as when its answer was refused."""
        self._sessions.pop(name).close()

    def serve(self, server: Party, half: Generator[Request, Any, Any], exchange: str) -> Any:
        """Carries out a server's half that asks for work of its own, and returns its replies."""
        session, answer = Session(server, half, f"serve {exchange}", keep_optimizer=False), None
        while not isinstance(step := session.advance(answer), Done):
            assert isinstance(step, Job), "The server has nobody to exchange with."
            answer = self._timed_by_phase([step])[0][0]
        return step.value

    def evaluate(
        self,
        parties: Mapping[str, Party],
        test_of: Callable[[Any], Samples | None],
        answering: Mapping[str, Answering],
    ) -> dict[str, Scores]:
        """What each participant scores on its test data, a few participants at a time.

        Args:
            parties: the participants by name.
            test_of: a participant's test data, whose inputs are answered; None if there are none.
            answering: in which ways they are answered: in its own (``OWN``), and with each model that is reported.
        """
        found: dict[str, Scores] = {}
        for names in self._groups({name: place for place, name in enumerate(parties)}, parties):
            found |= self._scores({name: (parties[name], test_of(parties[name])) for name in names}, answering)
        return found

    def evaluate_server(self, server: Party, test: Samples, answering: Mapping[str, Answering]) -> Scores:
        """What models of the server's score."""
        return self._scores({server.name: (server, test)}, answering)[server.name]

    def _scores(
        self, tested: Mapping[str, tuple[Party, Samples | None]], answering: Mapping[str, Answering]
    ) -> dict[str, Scores]:
        """What each party scores in each of these ways. One that has nothing to answer with scores nothing."""
        found: dict[str, Scores] = {name: {} for name in tested}
        for model, way in answering.items():
            answers = self._answers(
                {
                    name: AnsweringSession(party, way, test.inputs(), model)
                    for name, (party, test) in tested.items()
                    if test is not None
                }
            )
            for name, (_, test) in tested.items():
                answered = answers.get(name)
                if test is not None and answered is not None:
                    found[name][model] = measure(answered, test.y)
                elif model == OWN:
                    found[name][model] = dict(NOTHING)
        return found

    def _answers(self, sessions: Mapping[str, AnsweringSession]) -> dict[str, Any]:
        """What each session answers; their work is carried out together."""
        answers: dict[str, Any] = dict.fromkeys(sessions)
        going = list(sessions)
        while going:
            steps = {name: sessions[name].advance(answers[name]) for name in going}
            answers.update({name: step.value for name, step in steps.items() if isinstance(step, Done)})
            jobs = {name: step for name, step in steps.items() if isinstance(step, Job)}
            answers.update(zip(jobs, self.answer(list(jobs.values())), strict=True))
            going = list(jobs)
        return answers

    def _how_many(self, parties: Sequence[Party]) -> int:
        """How many run together: what the user says, or as many as fit into memory, by a careful estimate.

        The memory that was free the first time is kept with the run: it decides who runs together, and so must not
        change in its course.
        """
        if fixed := self.max_concurrent or self.together:
            return fixed
        if self._memory is None:
            steady = int(STEADY * total_memory(self.device))
            self._memory = int(USABLE * min(free_memory(self.device), steady))
        largest = max((party.working_bytes for party in parties), default=0)
        return max(1, self._memory // max(1, largest))

    def _groups(self, places: Mapping[str, int], parties: Mapping[str, Party]) -> Iterator[list[str]]:
        """Those who run together, one group after the other, in memory while they run."""
        groups: dict[int, list[str]] = {}
        for name, place in places.items():
            groups.setdefault(place // self._together, []).append(name)
        for group in groups.values():
            members = [parties[name] for name in group]
            if self.storage is not None:
                self.storage.pin(members)
            yield group
            if self.storage is not None:
                self.storage.evict(members)

    def _run(self, answers: Mapping[str, Any]) -> Iterator[Arrival]:
        parties = {name: self._sessions[name].party for name in answers}
        for names in self._groups({name: self._places[name] for name in answers}, parties):
            yield from self._run_group(names, answers)

    def _run_group(self, names: list[str], answers: Mapping[str, Any]) -> Iterator[Arrival]:
        while names:
            jobs: dict[str, Job] = {}
            for name in names:
                with self.timing("merge"):
                    answer = answers[name]  # a reply is made when it is asked for
                session = self._sessions[name]
                began = time.perf_counter()
                with self.timing("method"):
                    step = session.advance(answer)
                session.seconds += time.perf_counter() - began
                if isinstance(step, Job):
                    jobs[name] = step
                elif isinstance(step, Done):
                    del self._sessions[name]
                    yield Arrival(name, None, step.value or {}, session.seconds, session.steps)
                else:
                    yield Arrival(name, step, seconds=session.seconds, steps=session.steps)
            found = {}
            for name, (answer, seconds) in zip(jobs, self._timed_by_phase(list(jobs.values())), strict=True):
                self._sessions[name].seconds += seconds
                found[name] = answer
            names, answers = list(found), found

    def _timed_by_phase(self, jobs: Sequence[Job]) -> list[Timed]:
        """``timed``, and where somebody profiles, training, predicting and tapping apart."""
        if self.profiler is None:
            return self.timed(jobs)
        answers: dict[int, Timed] = {}
        for phase in dict.fromkeys(job.work.phase for job in jobs):
            own = [index for index, job in enumerate(jobs) if job.work.phase == phase]
            with self.profiler(phase):
                answers.update(zip(own, self.timed([jobs[index] for index in own]), strict=True))
        return [answers[index] for index in range(len(jobs))]


def _in_words(engine: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in engine.items()).replace("name ", "engine ", 1)


_NOTHING: AbstractContextManager[None] = nullcontext()


def timed_alone(job: Job, device: torch.device) -> Timed:
    """One job answered by its learner itself, and the seconds it took."""
    began = time.perf_counter()
    try:
        answer = job.answer(device)
    except Exception as error:
        error.add_note(f"This happened at {job.owner}, in round {job.round}, on {type(job.work).__name__}.")
        raise
    return answer, time.perf_counter() - began
