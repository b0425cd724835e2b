"""One party's run through its half of a method, or through its way of answering inputs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from potluck.core.party import Party
from potluck.core.randomness import derive
from potluck.core.requests import Exchange, Fitted, Job, Predict, Request
from potluck.core.samples import Samples
from potluck.engines.threads import Threads

Half = Callable[[Any], Generator[Request, Any, Any]]
"""A party's half of a method, begun for that party."""

Answering = Callable[[Any, Samples], Generator[Request, Any, Any]]
"""A party's way of answering inputs, begun for that party and these inputs. It returns a row for each of them, or None
where there is nothing to answer with yet."""


OWN = "own"
"""The participant's own way of answering, among all whose answers are reported."""


@dataclass(frozen=True)
class Done:
    """A party's half has ended, with what it returned: a participant's notes, the server's replies, answers."""

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
        step = self.advance(answer)
        while isinstance(step, Job):
            with self._threads.suiting([step], device):
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
