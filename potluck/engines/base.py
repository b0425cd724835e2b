"""What all engines share: parties run from exchange to exchange, a few at a time; their work is answered together."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from potluck.core.job import Job
from potluck.core.metrics import Scores
from potluck.core.model_spec import OWN
from potluck.core.party import Arrival, Host, Party, Storage
from potluck.core.payload import Payload
from potluck.core.profiler import PhaseTiming, Profiler, by_phase
from potluck.core.randomness import derive
from potluck.core.requests import Exchange, Fitted, Predict, Request
from potluck.core.samples import Samples
from potluck.engines.hardware import computing_in, free_memory, total_memory
from potluck.engines.ready_inputs import ReadyInputs
from potluck.engines.record import EngineRecord
from potluck.engines.threads import Threads

USABLE = 0.5
"""The share of the free memory that those who run together may take."""

STEADY = 0.5
"""The share of a device's memory beyond which it does not matter how much is free: so two runs count on the same."""

Timed = tuple[Any, float]
"""An answer, and the seconds it took."""


Half = Callable[[Any], Generator[Request, Any, Any]]
"""A party's half of a method, begun for that party."""

Answering = Callable[[Any, Samples], Generator[Request, Any, Any]]
"""A party's way of answering inputs, begun for that party and these inputs. It returns a row for each of them, or None
where there is nothing to answer with yet."""


@dataclass(frozen=True)
class Done:
    """A party's half has ended, with what it returned: a participant's notes, the server's replies, answers.

    Args:
        value: what it returned; by default None.
    """

    value: Any


class Session:
    """One party's run through its half of a method.

    Each job's randomness comes from (seed, party, round, phase, the how-many-eth request this is), so neither the
    engine nor the order of the participants can change it.

    Args:
        party: the party.
        half: its half, begun.
        phase: what the half is for, part of the text that randomness comes from.
        keep_optimizer: whether optimizers remember across trainings.
    """

    def __init__(self, party: Party, half: Generator[Request, Any, Any], phase: str, keep_optimizer: bool) -> None:
        if not isinstance(half, Generator):
            raise TypeError(f"{phase} is no generator: it must yield its requests.")
        self.party, self.seconds, self.steps = party, 0.0, 0
        self._half, self._phase, self._keep_optimizer = half, phase, keep_optimizer
        self._asked = 0
        self._threads = Threads()

    def advance(self, answer: Any) -> Job | Exchange | Done:
        """Gives the party its answer (None at first) and returns what it asks for next."""
        party = self.party
        if isinstance(answer, Fitted):
            self.steps += answer.steps
        try:
            request = self._half.send(answer)
        except StopIteration as stop:
            return Done(stop.value)
        self._asked += 1
        if not isinstance(request, Request):
            raise TypeError(f"{self._phase} at {party.name} yielded {request!r}; expected a request, such as Fit().")
        seed = derive(party.seed, party.name, party.round, self._phase, self._asked)
        return request.addressed(party, seed, self._keep_optimizer)

    def advance_alone(self, answer: Any, device: torch.device) -> Exchange | Done:
        """Gives the party its answer and has its learners do whatever it asks for, up to an exchange or the end."""
        return self.go_on(self.advance(answer), device)

    def go_on(self, step: Job | Exchange | Done, device: torch.device) -> Exchange | Done:
        """Has the party's learners do what it has asked for, and whatever else up to an exchange or the end."""
        while isinstance(step, Job):
            with suiting(self._threads, [step], device):
                found = step.answer(device)
            step = self.advance(found)
        return step

    def close(self) -> None:
        """Ends the party's half early."""
        self._half.close()


class AnsweringSession(Session):
    """A party answers inputs: it reads models, and neither trains one nor asks the server.

    Args:
        party: the party.
        answering: its way of answering.
        inputs: what is to be answered; never with labels.
        model: which of its models it answers with; by default its own way, whatever that is.
    """

    def __init__(self, party: Party, answering: Answering, inputs: Samples, model: str = OWN) -> None:
        phase = "predict" if model == OWN else f"predict with {model}"
        super().__init__(party, answering(party, inputs), phase, keep_optimizer=False)
        self._count = len(inputs)

    def advance(self, answer: Any) -> Job | Done:
        """As in any session. What would change a model or leave the party is refused."""
        step = super().advance(answer)
        where = f"{self._phase} at {self.party.name}"
        if isinstance(step, Exchange):
            raise TypeError(
                f"{where} asks for the exchange {step.name!r}; inputs are answered without the server. Have `round` "
                f"put what is needed into me.state."
            )
        if isinstance(step, Job) and step.work.writes:
            raise TypeError(
                f"{where} asks for {type(step.work).__name__}, which changes a model; inputs are answered by readings "
                f"alone, such as Predict and Tap. Train in `round`."
            )
        if isinstance(step, Done) and step.value is not None:
            self._check(step.value, where)
        return step

    def _check(self, answers: Any, where: str) -> None:
        found = f"a tensor of shape {tuple(answers.shape)}" if isinstance(answers, Tensor) else repr(answers)[:100]
        if not isinstance(answers, Tensor) or answers.ndim < 2 or len(answers) != self._count:
            raise TypeError(f"{where} returned {found}; expected a tensor with a row for each of {self._count} inputs.")

    def answer_alone(self, device: torch.device) -> Any:
        """The answers, by the party's learners themselves; None where there is nothing to answer with yet."""
        step = self.advance_alone(None, device)
        assert isinstance(step, Done)
        return step.value


def own_model(party: Party, inputs: Samples) -> Generator[Request, Any, Any]:
    """The way of answering where no method says another: the party's own model."""
    return (yield Predict(inputs))


class Engine(EngineRecord, ABC):
    """Runs parties, some of them together. How it answers their work is what tells one engine from another.

    Args:
        device: what networks compute on.
        precision: what they compute in.
    """

    together: ClassVar[int | None] = None
    """How many parties run together, where the engine does not look at the memory there is."""

    def __init__(self, device: torch.device, precision: str = "torch") -> None:
        super().__init__(device, precision)

    def _begin(self) -> None:
        super()._begin()
        self.max_concurrent: int | None = None
        """How many parties run together, where a user decides."""
        self.storage: Storage | None = None
        """Where parties are while others run, if not in memory."""
        self.timing = PhaseTiming()
        """Phase → what counts the seconds inside, if anybody profiles."""
        self.ready: ReadyInputs | None = None
        """Puts inputs through transforms before anything is carried out, from the first plan with one on."""
        self._threads = Threads()
        self._sessions: dict[str, Session] = {}
        self._places: dict[str, int] = {}
        """Where each party stands among all who began the phase: this decides with whom it runs, whoever drops out."""
        self._together = 1

    @property
    def host(self) -> Host | None:
        """What parties live with in other processes while it plays them; None where they stay in this one."""
        return None

    @property
    def active(self) -> bool:
        """Whether a half is on its way, between its beginning and its end."""
        return bool(self._sessions)

    def profile(self) -> Profiler:
        """Has it time its phases from now on."""
        if self.profiler is None:
            self.profiler = Profiler(self.device)
            self.timing.begin(self.profiler)
        return self.profiler

    def computing(self) -> AbstractContextManager[None]:
        """Everything inside computes in the engine's precision."""
        return _NOTHING if self.precision == "torch" else computing_in(self.precision)

    def made_ready(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """The same jobs, with inputs as models read them where that can be done of whole data."""
        if self.ready is None:
            if all(job.plan.transform is None for job in jobs):
                return jobs
            self.ready = ReadyInputs()
        return self.ready.of(jobs)

    @abstractmethod
    def timed(self, jobs: Sequence[Job]) -> list[Timed]:
        """Carries out the work of many parties, in any order; answers and seconds are in the order given."""

    def alone(self, job: Job) -> Timed:
        """One job answered by its learner itself."""
        with suiting(self._threads, [job], self.device):
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

    def give_up(self, names: Iterable[str]) -> None:
        """Ends the halves of all these: there is nothing that they could go on with."""
        for name in names:
            self.dismiss(name)

    def serve(self, server: Party, half: Generator[Request, Any, Any], exchange: str) -> Any:
        """Carries out a server's half that asks for work of its own, and returns its replies."""
        session, answer = Session(server, half, f"serve {exchange}", keep_optimizer=False), None
        while not isinstance(step := session.advance(answer), Done):
            assert isinstance(step, Job), "The server has nobody to exchange with."
            [(answer, _)] = self.timed([step]) if self.profiler is None else by_phase(self.profiler, [step], self.timed)
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
            for name, (party, test) in tested.items():
                answered = answers.get(name)
                if test is not None and answered is not None:
                    found[name][model], empty = party.task.measure(answered, test.y)
                    for metric, reason in empty.items():
                        self._tell(f"Some are without {metric}: {reason}.")
                elif model == OWN:
                    found[name][model] = party.task.nothing
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
                with self.timing["merge"]:
                    answer = answers[name]  # a reply is made when it is asked for
                session = self._sessions[name]
                began = time.perf_counter()
                with self.timing["method"]:
                    step = session.advance(answer)
                session.seconds += time.perf_counter() - began
                if isinstance(step, Job):
                    jobs[name] = step
                elif isinstance(step, Done):
                    del self._sessions[name]
                    yield Arrival(name, None, step.value or {}, session.seconds, session.steps)
                else:
                    yield Arrival(name, step, seconds=session.seconds, steps=session.steps)
            if not jobs:
                return
            found, todo = {}, list(jobs.values())
            timed = self.timed(todo) if self.profiler is None else by_phase(self.profiler, todo, self.timed)
            for name, (answer, seconds) in zip(jobs, timed, strict=True):
                self._sessions[name].seconds += seconds
                found[name] = answer
            names, answers = list(found), found


_NOTHING: AbstractContextManager[None] = nullcontext()


def suiting(threads: Threads, jobs: Sequence[Job], device: torch.device) -> AbstractContextManager[None]:
    """Inside, torch has the threads that suit these jobs. Where there is one only, there is nothing to choose."""
    if device.type != "cpu" or torch.get_num_threads() == 1:
        return _NOTHING
    return threads.suiting(jobs)


def timed_alone(job: Job, device: torch.device) -> Timed:
    """One job answered by its learner itself, and the seconds it took."""
    began = time.perf_counter()
    try:
        answer = job.answer(device)
    except Exception as error:
        error.add_note(f"This happened at {job.owner}, in round {job.round}, on {type(job.work).__name__}.")
        raise
    return answer, time.perf_counter() - began
