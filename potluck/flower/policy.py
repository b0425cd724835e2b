"""What a participant's owner allows, whatever the server asks for, and what was spent of it; checked per message."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Never

import torch
from pydantic import ConfigDict, Field

from potluck.core.errors import DataError, ModelError, PayloadError, PotluckError, RequirementsError
from potluck.core.exchange_order import Phase
from potluck.core.metrics import Metrics, Scores
from potluck.core.model_spec import OWN
from potluck.engines.base import Answering, AnsweringSession
from potluck.federation.method import Leaving, Method
from potluck.federation.participant import Participant
from potluck.flower.client_store import write_whole
from potluck.flower.protocol import Invitation
from potluck.flower.public_data import public_file
from potluck.recipes.recipe import Whole
from potluck.recipes.validation import Section

log = logging.getLogger(__name__)

DIGITS = 2
"""How many digits of a metric leave where they are rounded."""

JOININGS = 100
"""How often one federation may have a participant join: a server that dies before its first checkpoint begins again."""


class PolicyError(PotluckError):
    """The owner's policy does not allow what the server asks for."""


class Policy(Section):
    """The table ``[policy]`` of a participant's file.

    Args:
        methods: the methods it takes part in; by default any that its owner agrees to.
        exchanges: the exchanges in which it sends anything; by default all.
        leaves: what may leave: "weights", "features", "predictions", "statistics"; by default all. A method that does
            not say what leaves is declined where this is set.
        metrics: of its metrics on test data, "exact" (the default) ones leave, "rounded" ones, or "none".
        max_rounds: the most rounds that it agrees to; by default any number.
        max_trainings: how many rounds it plays in all, with those that the server has it play again; by default one and
            a half times as many as it agreed to, and ten.
        max_bytes: how many bytes may leave in one federation; by default any number.
        max_hours: how many hours it works for one federation; by default any number.
        min_others: with how many others, at least, what it sends must be merged, by the server's word; by default 0.
        receive_public: whether the server may send public data; by default True.
        codecs: codecs that what it sends must pass, such as "noise" and "clip"; by default none.
        max_federations: how many federations, and how many servers' public data, may be stored here; by default 20.
        max_messages: how many times it goes on in one phase at the server's word; by default 1000, as many as a server
            sends by default.
    """

    model_config = ConfigDict(title="policy")

    methods: list[str] | None = None
    exchanges: list[str] | None = None
    leaves: list[Leaving] | None = None
    metrics: Literal["exact", "rounded", "none"] = "exact"
    max_rounds: Whole | None = Field(None, ge=0)
    max_trainings: Whole | None = Field(None, ge=1)
    max_bytes: Whole | None = Field(None, ge=1)
    max_hours: Annotated[float, Field(gt=0)] | None = None
    min_others: Whole = Field(0, ge=0)
    receive_public: bool = True
    codecs: list[str] = Field(default_factory=list)
    max_federations: Whole = Field(20, ge=1)
    max_messages: Whole = Field(1000, ge=1)

    def check_invitation(self, invitation: Invitation, method: type[Method], own_public: bool) -> None:
        """Raises PolicyError, in a sentence for the owner, for terms that are not allowed."""
        if self.methods is not None and invitation.method not in self.methods:
            _refuse(f"the method {invitation.method!r}; it allows {', '.join(self.methods)}")
        for exchange in method.exchanges():
            self.check_exchange(exchange, method)
        if self.max_rounds is not None and invitation.rounds > self.max_rounds:
            _refuse(f"{invitation.rounds} rounds; it allows {self.max_rounds} (`max_rounds`)")
        if self.min_others and invitation.min_participants <= self.min_others:
            _refuse(
                f"a merge with {max(invitation.min_participants - 1, 0)} others; it wants {self.min_others} "
                f"(`min_others`)"
            )
        if invitation.public is not None and not own_public:
            self.check_public()
        for exchange in method.exchanges():
            given = {str(codec.get("name")) for codec in _codecs(invitation, exchange)}
            if missing := [name for name in self.codecs if name not in given]:
                _refuse(f"what is sent in {exchange!r} without the codec {missing[0]!r} (`codecs`)")

    def check_room(self, invitation: Invitation, folder: Path, own_public: bool) -> None:
        """Raises PolicyError for one federation, or one server's public data, more than may be stored in a folder."""
        stored = {path.name for path in folder.glob("*")}
        federations = {name for name in stored if re.fullmatch("[0-9a-f]{16}", name)}
        wanted = {"federations": (federations, invitation.federation)}
        if invitation.public is not None and not own_public:
            data = {name for name in stored if name.startswith("public-")}
            wanted["servers' public data"] = (data, public_file(invitation.public))
        for what, (here, another) in wanted.items():
            if another not in here and len(here) >= self.max_federations:
                raise PolicyError(
                    f"{len(here)} {what} are stored here already, as many as its owner's policy allows "
                    f"(`max_federations`); delete what is not needed any more"
                )

    def check_message(self, step: int) -> None:
        """Raises PolicyError where a phase has gone on for so long that more of it is not wanted."""
        if step >= self.max_messages:
            _refuse(f"that one phase goes on for more than {self.max_messages} messages (`max_messages`)")

    def check_public(self) -> None:
        """Raises PolicyError where the server may not send public data."""
        if not self.receive_public:
            _refuse("public data from the server (`receive_public`)")

    def check_exchange(self, exchange: str, method: type[Method]) -> None:
        """Raises PolicyError for an exchange that may not be, or in which something leaves that must not."""
        if self.exchanges is not None and exchange not in self.exchanges:
            _refuse(f"the exchange {exchange!r}; it allows {', '.join(self.exchanges)} (`exchanges`)")
        if self.leaves is not None:
            leaving = method.leaves.get(exchange)
            if leaving is None:
                _refuse(f"{method.__name__}, which does not say what leaves in {exchange!r} (`leaves`)")
            if odd := [what for what in leaving if what not in self.leaves]:
                _refuse(f"that {odd[0]} leave in {exchange!r}; it allows {', '.join(self.leaves) or 'nothing'}")

    def trainings(self, rounds: int) -> int:
        """How many rounds are played in all, of those agreed to."""
        return self.max_trainings if self.max_trainings is not None else rounds + rounds // 2 + 10

    def scores(self, me: Participant, answering: Mapping[str, Answering], device: torch.device) -> Scores:
        """How well a participant answers, as it may leave: its own way, and each model that the method reports.

        Args:
            me: the participant.
            answering: how each of these answers, by name.
            device: what its network computes on.
        """
        scores = {OWN: me.task.nothing}
        if (test := me.test) is not None:
            for model, way in answering.items():
                answers = AnsweringSession(me, way, test.inputs(), model).answer_alone(device)
                if answers is not None:
                    exact, empty = me.task.measure(answers, test.y)
                    scores[model] = self.shown(exact)
                    for metric, reason in empty.items():
                        log.info("There is no %s: %s", metric, reason)
        return scores

    def shown(self, metrics: Metrics) -> Metrics:
        """Metrics as they may leave."""
        if self.metrics == "exact":
            return metrics
        kept = self.metrics == "rounded"
        return {name: None if value is None or not kept else round(value, DIGITS) for name, value in metrics.items()}


@dataclass
class Spent:
    """What was spent.

    Args:
        trainings: how many rounds were begun, those that were played again counted again.
        joinings: how many times it began to join.
        bytes: how many bytes have left, those that were sent again counted again.
        seconds: how long it has worked, also for what came to nothing.
        evaluated: the metrics that were sent when the server asked for them, by the round after which they were.
    """

    trainings: int = 0
    joinings: int = 0
    bytes: int = 0
    seconds: float = 0.0
    evaluated: dict[str, Any] = field(default_factory=dict)


class Ledger:
    """What a participant has done for one federation, and what is left of its owner's budget for it.

    It is on disk, so that a restart does not have everything done again.

    Args:
        path: its file.
        policy: the budget.
        rounds: how many rounds were agreed to.
    """

    def __init__(self, path: Path, policy: Policy, rounds: int) -> None:
        self._path, self._policy, self._rounds = path, policy, rounds
        self.spent = Spent()
        if path.exists():
            try:
                self.spent = Spent(**json.loads(path.read_text()))
            except (ValueError, TypeError) as error:
                raise PayloadError(f"{path} cannot be read: {error}; what was spent is not known") from error

    def begin(self, phase: Phase) -> None:
        """Counts a phase that begins, if there is one left."""
        if phase == "join":
            done, most, what = self.spent.joinings, JOININGS, "joinings"
        else:
            done, most, what = self.spent.trainings, self._policy.trainings(self._rounds), "trainings"
        if done >= most:
            raise PolicyError(f"the owner's policy allows {most} {what} in this federation, which are done")
        self.check()
        setattr(self.spent, what, done + 1)
        self._keep()

    def check(self) -> None:
        """Raises PolicyError where nothing is left to work or to send with."""
        hours, most = self._policy.max_hours, self._policy.max_bytes
        if hours is not None and self.spent.seconds >= 3600 * hours:
            raise PolicyError(f"the owner's policy allows {hours:g} hours in this federation, which are over")
        if most is not None and self.spent.bytes >= most:
            raise PolicyError(f"the owner's policy allows {most} bytes in this federation, which have left")

    def send(self, size: int) -> None:
        """Counts what leaves, if it may leave."""
        if self._policy.max_bytes is not None and self.spent.bytes + size > self._policy.max_bytes:
            raise PolicyError(f"the owner's policy allows {self._policy.max_bytes} bytes in this federation")
        self.spent.bytes += size
        self._keep()

    @contextmanager
    def work(self) -> Iterator[None]:
        """Counts how long the work inside takes, whatever comes of it."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spent.seconds += time.perf_counter() - began
            self._keep()

    def evaluation(self, round: int) -> Any:
        """What was sent before of how it stood after a round, if the server has asked for it."""
        return self.spent.evaluated.get(str(round))

    def keep_evaluation(self, round: int, scores: Any) -> None:
        """Notes what is sent of how it stood after a round: that is not measured again, with other weights."""
        self.spent.evaluated[str(round)] = scores
        self._keep()

    def _keep(self) -> None:
        write_whole(self._path, json.dumps(asdict(self.spent)).encode())


OWN_WORDS = (PotluckError, PolicyError)
"""Errors whose texts are about what the server said, or are the owner's own words."""


def reason_for_server(error: PotluckError) -> str:
    """Why an invitation is declined, as the server may read it: the text of other errors may speak of private data."""
    if type(error) in OWN_WORDS:
        return str(error)[:10_000]
    kind = {DataError: "data", ModelError: "model", RequirementsError: "model or data"}.get(type(error))
    return f"its {kind or 'set-up'} does not fit ({type(error).__name__}); its own log says why"


def _codecs(invitation: Invitation, exchange: str) -> list[dict[str, object]]:
    """The codecs of what is sent in an exchange."""
    channel = invitation.channel or {}
    own = channel.get("exchanges", {}).get(exchange, {})
    found = own["up"] if isinstance(own, dict) and own.get("up") is not None else channel.get("up") or []
    return [codec for codec in found if isinstance(codec, dict)]


def _refuse(what: str) -> Never:
    raise PolicyError(f"its owner's policy does not allow {what}")
