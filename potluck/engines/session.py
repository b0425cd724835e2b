"""One party's run through its half of a method: its generator, and the work it asks for as jobs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from potluck.core.errors import DataError
from potluck.core.plan import Plan
from potluck.core.randomness import derive
from potluck.core.requests import Exchange, Fit, Job, Predict, Request, Tap, Work
from potluck.core.samples import Samples
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.learners.base import Learner


@dataclass(frozen=True)
class Done:
    """The party's half has ended, with what it returned: a participant's notes, the server's replies."""

    value: Any


class Session:
    """Turns requests into jobs by filling in what they leave open.

    Each job's randomness comes from (seed, party, round, stage, the how-many-eth request this is), so neither the
    engine nor the order of the participants can change it.
    """

    def __init__(
        self,
        party: Participant | Server,
        generator: Generator[Request, Any, Any],
        stage: str,
        keep_optimizer: bool = False,
    ) -> None:
        if not isinstance(generator, Generator):
            raise TypeError(f"{stage} is no generator: it must yield its requests.")
        self.party = party
        self.seconds = 0.0
        self._generator = generator
        self._stage = stage
        self._keep_optimizer = keep_optimizer
        self._asked = 0
        self._started = False

    @property
    def name(self) -> str:
        return self.party.name

    def advance(self, answer: Any) -> Job | Exchange | Done:
        """Gives the party its answer (None at first) and returns what it asks for next."""
        try:
            request = self._generator.send(answer) if self._started else next(self._generator)
        except StopIteration as stop:
            return Done(stop.value)
        self._started = True
        self._asked += 1
        if isinstance(request, Exchange):
            return request
        if isinstance(request, Fit | Predict | Tap):
            return self._job(request)
        raise TypeError(f"{self._stage} at {self.name} yielded {request!r}; expected Fit, Predict, Tap or Exchange.")

    def close(self) -> None:
        """Ends the party's half early."""
        self._generator.close()

    def _job(self, work: Work) -> Job:
        party = self.party
        plan = work.plan or (party.plan if isinstance(party, Participant) else Plan())
        return Job(
            owner=party.name,
            work=work,
            learner=self._learner(work.learner),
            samples=self._samples(work.on),
            plan=plan,
            seed=derive(party.seed, party.name, party.round, self._stage, self._asked),
            round=party.round,
            keep_optimizer=self._keep_optimizer and isinstance(work, Fit),
        )

    def _learner(self, asked: Learner | None) -> Learner:
        if asked is not None:
            return asked
        if isinstance(self.party, Participant):
            return self.party.learner
        raise TypeError("The server has no model of its own: name one, e.g. Fit(..., learner=server.learner(...)).")

    def _samples(self, asked: Samples | None) -> Samples:
        if asked is not None:
            return asked
        if isinstance(self.party, Participant):
            return self.party.data
        raise DataError("The server has no data of its own: name some, e.g. Fit(on=server.public).")
