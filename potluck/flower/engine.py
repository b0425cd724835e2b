"""The engine over a network: what a federation drives, with every participant on its own machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch

from potluck.core.errors import PayloadError, PotluckError
from potluck.core.history import readable_bytes
from potluck.core.metrics import Scores, possible, title
from potluck.core.model_spec import OWN
from potluck.core.party import Arrival, Party
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.samples import Samples
from potluck.engines.base import Answering, Half
from potluck.engines.serial import Serial
from potluck.flower.gateway import Gateway, NoAnswer
from potluck.flower.protocol import Advance, Evaluate, Evaluated, ExchangeReached, Failed, Message, PhaseEnded, Response

log = logging.getLogger(__name__)

OnTooFew = Literal["fail", "wait"]


STRIKES = 3
"""How many times in a row a participant may fail to answer before nobody waits for it any more."""


class TooFewError(PotluckError):
    """Fewer participants answer than a round needs."""


@dataclass(frozen=True)
class Rules:
    """How long the server waits, and for how many.

    Args:
        answer_timeout: seconds that a participant may take in a round, over all its answers; by default an hour.
        min_participants: how many must answer in a round; by default 1.
        on_too_few: whether a round with fewer is to "fail" (the default), or to "wait" for them past the timeout.
        wait_timeout: how many seconds it waits at most; by default an hour.
        max_messages: how many messages one participant may be sent in a phase; by default 1000.
    """

    answer_timeout: float = 3600.0
    min_participants: int = 1
    on_too_few: OnTooFew = "fail"
    wait_timeout: float = 3600.0
    max_messages: int = 1000


class Flower(Serial):
    """Each exchange is one message there and back; the server's own work is done as on the serial engine.

    Args:
        gateway: carries the messages.
        device: what the server's own networks compute on.
        rules: how long the server waits, and for how many; by default ``Rules()``.
        report: is given a line for everything that happens; by default the log.
    """

    def __init__(
        self,
        gateway: Gateway,
        device: torch.device,
        rules: Rules | None = None,
        report: Callable[[str], None] = log.info,
    ) -> None:
        super().__init__(device)
        self.gateway = gateway
        self._rules = rules or Rules()
        self._report = report

    def _begin(self) -> None:
        super()._begin()
        self._at: dict[str, Advance] = {}
        """What each participant was asked for last in this phase."""
        self._scores_of: dict[str, Scores] = {}
        self._unreachable: set[str] = set()
        """Who did not answer the last time."""
        self._lost: set[str] = set()
        """Whose half of this phase has ended early."""
        self._spent: dict[str, float] = {}
        """How long each has been waited for in this phase."""
        self._strikes: dict[str, int] = {}
        """How many times in a row each has failed to answer."""
        self._given_up = False
        """Whether nothing more can come of this phase."""
        self._settled = False
        """Whether enough have joined, so that others may come late one by one."""
        self._late = False
        """Whether this phase is a latecomer's joining."""

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Takes up a run, whose first joining is past."""
        super().restore(snapshot)
        self._settled = True

    def present(self, names: Iterable[str]) -> list[str]:
        """Those who have accepted and whose node is there."""
        return [name for name in names if self.gateway.is_connected(name)]

    def start(self, phase: str, parties: Iterable[Party], half: Half, keep_optimizer: bool) -> Iterator[Arrival]:
        """Begins a phase at each participant. Whoever did not answer the last time is asked only if it is there.

        Whoever has not answered three times is left out until it does: it is asked how it scores, and not waited for.
        """
        self._at, self._lost, self._given_up, self._spent = {}, set(), False, {}
        for name in self.gateway.heard:
            self._strikes.pop(name, None)
        self.gateway.heard.clear()
        self._late = self._settled and phase == "join"
        self._settled = self._settled or phase == "round"
        for party in parties:
            number = party.round if phase == "round" else 0
            self._at[party.name] = Advance.model_validate({"phase": phase, "round": number, "step": 0})
        self._check_minimum()
        away = [name for name in self._at if name in self._unreachable and not self.gateway.is_connected(name)]
        yield from (self._failed(name, "it is not there") for name in away)
        silent = [name for name in self._at if name not in away and self._strikes.get(name, 0) >= STRIKES]
        for name in silent:
            self.gateway.probe(name, Evaluate(round=max(self._at[name].round - 1, 0)).message())
            yield self._failed(name, f"it did not answer {STRIKES} times; it takes part again when it answers")
        yield from self._advance({name: b"" for name in self._at if name not in {*away, *silent}})

    def resume(self, replies: Mapping[str, Payload]) -> Iterator[Arrival]:
        """Sends each participant the server's reply, and waits for where it comes to next."""
        for name in replies:
            self._at[name] = self._at[name].model_copy(update={"step": self._at[name].step + 1})
        return self._advance({name: reply.to_bytes() for name, reply in replies.items()})

    def dismiss(self, name: str) -> None:
        """It ends its half when it is next asked for anything."""
        self._lost.add(name)
        self._scores_of.pop(name, None)
        self._check_minimum()

    def give_up(self, names: Iterable[str]) -> None:
        """They end their halves when they are next asked for anything, and nobody is needed for what is left."""
        self._given_up = True
        super().give_up(names)

    def evaluate(
        self,
        parties: Mapping[str, Party],
        test_of: Callable[[Any], Samples | None],
        answering: Mapping[str, Answering],
    ) -> dict[str, Scores]:
        """What each said at the end of its half; whoever ended early and is there is asked."""
        number = max((party.round for party in parties.values()), default=0)
        unknown = [name for name in parties if name not in self._scores_of and name not in self._unreachable]
        ask = {name: Evaluate(round=number).message() for name in unknown if self.gateway.is_connected(name)}
        timeouts = {name: self._time_left(name) for name in ask}
        for name, _, response in self.gateway.ask(ask, timeouts, lambda _: False):
            if isinstance(response, NoAnswer):
                self._strike(name)
            if isinstance(response, Evaluated):
                self._scores_of[name] = {**response.models, OWN: response.metrics}
        reported = {name: self._readable(self._scores_of.get(name, {}), party) for name, party in parties.items()}
        return {
            name: {
                OWN: parties[name].task.nothing,
                **{model: metrics for model, metrics in scores.items() if model in answering},
            }
            for name, scores in reported.items()
        }

    def _readable(self, scores: Scores, party: Party) -> Scores:
        """What a participant says it scores. Metrics that it did not announce, or that cannot be, are none."""
        announced, known = set(party.task.nothing), party.task.KNOWN
        found: Scores = {}
        for model, metrics in scores.items():
            if set(metrics) != announced:
                continue
            odd = [name for name, value in metrics.items() if name in known and not possible(name, value)]
            for name in odd:
                self._report(f"{party.name} tells {title(name)} {metrics[name]:g}, which cannot be; it is left out")
            found[model] = {name: None if name in odd else value for name, value in metrics.items()}
        return found

    def _advance(self, bodies: Mapping[str, bytes]) -> Iterator[Arrival]:
        messages = {name: self._at[name].message(body) for name, body in bodies.items()}
        over = [name for name in messages if self._at[name].step >= self._rules.max_messages]
        for name in over:
            del messages[name]
            yield self._failed(name, f"more than {self._rules.max_messages} messages in one phase")
        timeouts, began = {name: self._time_left(name) for name in messages}, time.monotonic()
        for name, message, response in self.gateway.ask(
            messages, timeouts, lambda unanswered: self._wait_on(unanswered, time.monotonic() - began)
        ):
            self._spent[name] = self._spent.get(name, 0.0) + time.monotonic() - began
            yield self._arrival(name, message, response)

    def _time_left(self, name: str) -> float:
        """How long a participant is waited for in what is left of this phase."""
        return max(self._rules.answer_timeout - self._spent.get(name, 0.0), 0.0)

    def _wait_on(self, unanswered: int, waited: float) -> bool:
        """Whether a round that would be too small without those who have not answered waits for them."""
        too_small = self._left - unanswered < self._rules.min_participants
        in_time = waited < self._rules.answer_timeout + self._rules.wait_timeout
        return self._rules.on_too_few == "wait" and self._needs_minimum and too_small and in_time

    def _strike(self, name: str) -> None:
        self._strikes[name] = self._strikes.get(name, 0) + 1

    @property
    def _needs_minimum(self) -> bool:
        """Rounds need the minimum, and so does joining; but whoever comes late may join alone."""
        if self._given_up:
            return False
        return not self._late

    @property
    def _left(self) -> int:
        return len(self._at) - len(self._lost)

    def _check_minimum(self) -> None:
        if self._needs_minimum and self._left < self._rules.min_participants:
            raise TooFewError(
                f"{self._left} of {len(self._at)} participants are left, and {self._rules.min_participants} are needed "
                f"(`min_participants`). See that they are there, and go on with --resume."
            )

    def _arrival(self, name: str, message: Message, response: Response | NoAnswer) -> Arrival:
        """What came, as the federation reads it. What it holds is checked there, against the exchange's schema."""
        if isinstance(response, NoAnswer):
            self._strike(name)
            return self._failed(name, response.reason)
        self._strikes.pop(name, None)
        if isinstance(response, Failed):
            return self._failed(name, f"it failed there with {response.error}")
        asked = self._at[name]
        if not isinstance(response, ExchangeReached | PhaseEnded) or (
            (response.phase, response.round, response.step) != (asked.phase, asked.round, asked.step)
        ):
            return self._failed(name, "its answer is not to what was asked")
        self._unreachable.discard(name)
        connection = self.gateway.connections.get(name)
        if isinstance(response, PhaseEnded):
            if response.phase == "round":
                self._scores_of[name] = {**response.models, OWN: response.metrics}
            received = 0
            if connection is not None:
                received, connection.public_bytes = connection.public_bytes, 0
            return Arrival(name, None, response.notes, response.seconds, received=received)
        try:
            payload = self.gateway.limits.read(message.body, finite=False)
        except PayloadError as error:
            return self._failed(name, str(error))
        self._report(f"{name} sent {readable_bytes(len(message.body))} ({response.exchange})")
        self._scores_of.pop(name, None)
        return Arrival(name, Exchange(response.exchange, payload), seconds=response.seconds)

    def _failed(self, name: str, reason: str) -> Arrival:
        self._unreachable.add(name)
        self._lost.add(name)
        self._scores_of.pop(name, None)
        self._report(f"goes on without {name}: {reason}")
        self._check_minimum()
        return Arrival(name, failed=reason)
