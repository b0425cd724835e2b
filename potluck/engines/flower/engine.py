"""The engine over a network: what a federation drives, with every participant on its own machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from potluck.engines.flower.letters import Answer, AtExchange, Ended, Evaluate, Failed, Letter, Measured, Note, Work
from potluck.engines.flower.post import Failure, Post
from potluck.engines.local import Arrival
from potluck.engines.serial import Serial
from potluck.errors import PayloadError, PotluckError
from potluck.history import readable_bytes
from potluck.method import Method
from potluck.metrics import NOTHING, Metrics
from potluck.participant import Participant
from potluck.payload import Limits, Payload
from potluck.requests import Exchange
from potluck.samples import Samples

log = logging.getLogger(__name__)


class TooFewError(PotluckError):
    """Fewer participants answer than a round needs."""


@dataclass(frozen=True)
class Rules:
    """How long the server waits, and for how many.

    ``deadline``: seconds an answer may take. ``minimum``: how many must answer, or the round ``waits`` for them past
    the deadline, or fails. ``messages``: how many letters one participant may be sent in a stage.
    """

    deadline: float = 3600.0
    minimum: int = 1
    waits: bool = False
    messages: int = 1000
    limits: Limits = field(default_factory=Limits)


class Flower(Serial):
    """Each exchange is one letter there and back; the server's own work is done as on the serial engine."""

    def __init__(
        self, post: Post, device: torch.device, rules: Rules | None = None, tell: Callable[[str], None] = log.info
    ) -> None:
        super().__init__(device)
        self._post = post
        self._rules = rules or Rules()
        self._tell = tell

    def _begin(self) -> None:
        super()._begin()
        self._at: dict[str, Work] = {}
        self._notes: Mapping[str, type] = {}
        self._metrics: dict[str, Metrics] = {}
        self._gone: set[str] = set()
        self._lost: set[str] = set()

    def present(self, names: Iterable[str]) -> list[str]:
        """Those who have accepted and whose node is there."""
        return [name for name in names if self._post.here(name)]

    def start(
        self, stage: str, method: Method, participants: Iterable[Participant], keep_optimizer: bool
    ) -> Iterator[Arrival]:
        """Begins a stage at each participant. Whoever did not answer the last time is asked only if it is there."""
        self._at, self._lost, self._notes = {}, set(), method.notes
        for participant in participants:
            number = participant.round if stage == "round" else 0
            self._at[participant.name] = Work.model_validate({"stage": stage, "round": number, "step": 0})
        self._check_minimum()
        away = [name for name in self._at if name in self._gone and not self._post.here(name)]
        yield from (self._failed(name, "it is not there") for name in away)
        yield from self._ask({name: Letter() for name in self._at if name not in away})

    def resume(self, replies: Mapping[str, Payload]) -> Iterator[Arrival]:
        """Sends each participant the server's reply, and waits for where it comes to next."""
        for name in replies:
            self._at[name] = self._at[name].model_copy(update={"step": self._at[name].step + 1})
        return self._ask({name: Letter(body=reply.to_bytes()) for name, reply in replies.items()})

    def dismiss(self, name: str) -> None:
        """It ends its half when it is next asked for anything."""
        self._lost.add(name)
        self._metrics.pop(name, None)
        self._check_minimum()

    def evaluate(self, tests: Mapping[str, tuple[Participant, Samples | None]]) -> dict[str, Metrics]:
        """What each said at the end of its half; whoever ended early and is there is asked."""
        number = max((p.round for p, _ in tests.values()), default=0)
        free = [n for n in tests if n not in self._metrics and n not in self._gone and self._post.here(n)]
        ask = {name: Evaluate(round=number).letter() for name in free}
        for name, _, answer in self._post.ask(ask, self._rules.deadline, lambda _: False):
            if isinstance(answer, Measured) and set(answer.metrics) == set(NOTHING):
                self._metrics[name] = answer.metrics
        return {name: dict(self._metrics.get(name, NOTHING)) for name in tests}

    def _ask(self, letters: Mapping[str, Letter]) -> Iterator[Arrival]:
        work = {name: Letter(self._at[name].model_dump(mode="json"), letter.body) for name, letter in letters.items()}
        over = [name for name in work if self._at[name].step >= self._rules.messages]
        for name in over:
            del work[name]
            yield self._failed(name, f"more than {self._rules.messages} letters in one stage")
        for name, letter, answer in self._post.ask(work, self._rules.deadline, self._wait_on):
            yield self._arrival(name, letter, answer)

    def _wait_on(self, open_: int) -> bool:
        """Whether a round that would be too small without those who have not answered waits for them."""
        return self._rules.waits and self._bound and self._left - open_ < self._rules.minimum

    @property
    def _bound(self) -> bool:
        """Rounds need the minimum, and so does joining; but whoever comes late may join alone."""
        late = len(self._at) < self._rules.minimum and all(work.stage == "join" for work in self._at.values())
        return not late

    @property
    def _left(self) -> int:
        return len(self._at) - len(self._lost)

    def _check_minimum(self) -> None:
        if self._bound and self._left < self._rules.minimum:
            raise TooFewError(
                f"{self._left} of {len(self._at)} participants are left, and {self._rules.minimum} are needed "
                f"(`minimum`). See that they are there, and go on with --resume."
            )

    def _arrival(self, name: str, letter: Letter, answer: Answer | Failure) -> Arrival:
        """What came, as the federation reads it. What it holds is checked there, against the exchange's form."""
        if isinstance(answer, Failure):
            return self._failed(name, answer.reason)
        if isinstance(answer, Failed):
            return self._failed(name, f"it failed there with {answer.error}")
        asked = self._at[name]
        if not isinstance(answer, AtExchange | Ended) or (answer.stage, answer.round, answer.step) != (
            asked.stage,
            asked.round,
            asked.step,
        ):
            return self._failed(name, "its answer is not to what was asked")
        self._gone.discard(name)
        guest = self._post.guests[name]
        if isinstance(answer, Ended):
            if wrong := _undeclared(answer.notes, self._notes):
                return self._failed(name, wrong)
            if answer.stage == "round":
                self._metrics[name] = answer.metrics if set(answer.metrics) == set(NOTHING) else dict(NOTHING)
            received, guest.bytes_public = guest.bytes_public, 0
            return Arrival(name, None, answer.notes, answer.seconds, received=received)
        try:
            payload = Payload.from_bytes(letter.body, self._rules.limits, finite=False)
        except PayloadError as error:
            return self._failed(name, str(error))
        self._tell(f"{name} sent {readable_bytes(len(letter.body))} ({answer.exchange})")
        self._metrics.pop(name, None)
        return Arrival(name, Exchange(answer.exchange, payload), seconds=answer.seconds)

    def _failed(self, name: str, why: str) -> Arrival:
        self._gone.add(name)
        self._lost.add(name)
        self._metrics.pop(name, None)
        self._tell(f"goes on without {name}: {why}")
        self._check_minimum()
        return Arrival(name, failed=why)


def _undeclared(notes: Mapping[str, Note], declared: Mapping[str, type]) -> str | None:
    """What is wrong with notes that must be those which the method declares; None if nothing is."""
    for name, value in notes.items():
        if name not in declared:
            return f"it notes {name!r}, which the method does not declare (`notes`)"
        kinds = (int, float) if declared[name] is float else (declared[name],)
        if value is not None and type(value) not in kinds:
            return f"it notes {name!r} = {value!r}; the method declares {declared[name].__name__}"
    return None
