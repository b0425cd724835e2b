"""What a participant's owner allows, whatever the server asks for: checked here, for each message."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Never

import torch
from pydantic import ConfigDict, Field

from potluck.core.errors import DataError, ModelError, PotluckError, RequirementsError
from potluck.core.metrics import Metrics, Scores
from potluck.core.model_spec import OWN
from potluck.engines.base import Answering, AnsweringSession
from potluck.federation.method import Leaving, Method
from potluck.federation.participant import Participant
from potluck.flower.protocol import Invitation
from potluck.flower.public_data import public_file
from potluck.recipes.recipe import Whole
from potluck.recipes.validation import Section

log = logging.getLogger(__name__)

DIGITS = 2
"""How many digits of a metric leave where they are rounded."""


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
