"""A participant's side, in one long-lived process: it holds the model and the data, and answers the server's letters.

The same request gets the same answer, however often it comes: from what was kept, or by playing the stage again from
the state before it, which gives the same since every draw comes from seed, name, round and purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import potluck
from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError, PotluckError
from potluck.core.samples import Samples, SharedData
from potluck.core.tasks import Metrics
from potluck.engines.base import Arrival, Engine
from potluck.federation.admission import Admission
from potluck.federation.fingerprint import check_resumable, participant_fingerprint
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.flower.client_store import Desk
from potluck.flower.consent import method_named, method_of
from potluck.flower.protocol import (
    PROTOCOL,
    Accepted,
    AtExchange,
    Declined,
    Ended,
    Evaluate,
    Failed,
    Farewell,
    Invitation,
    Letter,
    Measured,
    Noted,
    PublicData,
    Stage,
    Work,
    read_request,
)
from potluck.flower.public_data import Copies

log = logging.getLogger(__name__)

Consent = Callable[[Invitation, type[Method]], str | None]
"""Asks the participant's owner: None for yes, or why not."""


class Host:
    """Answers letters, one after the other.

    ``public`` loads the participant's own copy of the public data for a seed, if it has one; ``allowed`` are the
    ``"package.module:name"`` that the server may have imported here.
    """

    def __init__(
        self,
        participant: Participant,
        engine: Engine,
        folder: Path,
        consent: Consent,
        *,
        public: Callable[[int], SharedData] | None = None,
        allowed: tuple[str, ...] = (),
        limits: Limits | None = None,
    ) -> None:
        self.participant = participant
        self.ended: int | None = None
        """After how many rounds the federation ended, once it has."""
        self._engine = engine
        self._folder = folder
        self._consent = consent
        self._copies = Copies(folder, public, limits or Limits())
        self._allowed = allowed
        self._limits = limits or Limits()
        self._invitation: Invitation | None = None
        self._method: Method | None = None
        self._shown: SharedData | None = None
        self._desk: Desk | None = None
        self._live: tuple[Stage, int, int] | None = None  # the step that was answered last, by a half that goes on
        self._at: int | None = None  # the round after which the model is as it is now, if it is between rounds
        self._latest = 0  # the round that this run of the server has come to

    def answer(self, letter: Letter) -> Letter:
        """The answer to a letter. What goes wrong here is told in the log here; the server learns only its kind."""
        name = self.participant.name
        try:
            return self._answer(letter)
        except Exception as error:
            self._live = None
            log.exception("%s could not answer", name)
            return Failed(name=name, error=type(error).__name__).letter()

    def _answer(self, letter: Letter) -> Letter:
        asked = read_request(letter)
        name = self.participant.name
        if isinstance(asked, Invitation):
            return self._invited(asked)
        if isinstance(asked, Farewell):
            self.ended = asked.rounds
            return Noted(name=name).letter()
        if self._invitation is None or self._method is None:
            raise PayloadError("the server asks for work before its invitation was accepted")
        if isinstance(asked, PublicData):
            self._shown = self._copies.keep(self._invitation.public, letter.body)
            self._sit()
            return Noted(name=name).letter()
        if isinstance(asked, Evaluate):
            return self._evaluated(asked.round)
        return self._worked(asked, letter.body)

    def _invited(self, invitation: Invitation) -> Letter:
        """Compares versions, asks the owner, takes a seat."""
        name = self.participant.name
        self._latest = 0
        try:
            if invitation.protocol != PROTOCOL:
                raise PotluckError(
                    f"the server speaks protocol {invitation.protocol} (potluck {invitation.potluck}), this machine "
                    f"{PROTOCOL} (potluck {potluck.__version__}); install the same version on both sides"
                )
            if invitation != self._invitation:
                refused = self._consent(invitation, method_named(invitation, self._allowed))
                if refused is not None:
                    raise PotluckError(refused)
                self._take_seat(invitation, method_of(invitation, self._allowed))
        except PotluckError as error:
            log.warning("Declined the invitation: %s", error)
            return Declined(name=name, reason=str(error)[:10_000]).letter()
        x = self.participant.data.x
        return Accepted(
            name=name,
            labels=list(self.participant.labels),
            inputs=list(x.shape[1:]),
            in_bytes=str(x.dtype) == "torch.uint8",
            has_public=invitation.public is None or self._shown is not None,
        ).letter()

    def _take_seat(self, invitation: Invitation, method: Method) -> None:
        """Makes the model, and finds what was kept of this federation."""
        self._invitation, self._method = invitation, method
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._shown = None if invitation.public is None else self._copies.find(invitation.public, invitation.seed)
        if invitation.public is None or self._shown is not None:
            self._sit()

    def _sit(self) -> None:
        assert self._invitation is not None
        assert self._method is not None
        me, invitation = self.participant, self._invitation
        admission = Admission()
        admission.admit(me, self._join)
        if self._shown is not None:
            admission.check_inputs("the public data", self._shown.x)
        admission.check_fit(self._method, self._shown, alone=True)
        me.check_keepable()
        check_resumable([me], self._method, invitation.keep_optimizer)
        identity = participant_fingerprint(me, self._method, invitation.keep_optimizer)
        self._desk = Desk(self._folder / invitation.federation, identity)
        self._live, self._at = None, None

    def _join(self, me: Participant) -> Samples | None:
        """Has the participant take its seat anew; returns what it is tested on."""
        assert self._invitation is not None
        me.join(self._invitation.seed, self._shown)
        return me.test

    def _worked(self, asked: Work, body: bytes) -> Letter:
        desk = self._seated()
        if not desk.follows(asked.stage, asked.round, asked.step):
            raise PayloadError(
                f"step {asked.step} of {asked.stage} {asked.round} is asked for, and step {asked.step - 1} was not "
                f"answered here"
            )
        kept = desk.answered(asked.stage, asked.round, asked.step, body)
        if kept is not None:
            log.info("Answered again from what was kept: %s %d, step %d", asked.stage, asked.round, asked.step)
            return kept
        assert self._invitation is not None
        if asked.round > self._invitation.rounds:
            raise PayloadError(
                f"round {asked.round} was not agreed to; the invitation was to {self._invitation.rounds}"
            )
        if asked.round < self._latest:
            raise PayloadError(f"round {asked.round} is past; the server was at {self._latest} already")
        self._latest = asked.round
        if asked.step == 0 or self._live != (asked.stage, asked.round, asked.step - 1):
            self._go_back(asked)
        desk.forget_from(asked.stage, asked.round, asked.step)
        arrival = self._advance(asked.stage, asked.round, asked.step, body)
        answer = self._letter(asked, arrival)
        desk.keep(asked.stage, asked.round, asked.step, body, answer)
        return answer

    def _go_back(self, asked: Work) -> None:
        """To the state before the stage, and from there again to the step before the one asked for."""
        desk, me = self._seated(), self.participant
        requests = desk.requests(asked.stage, asked.round, asked.step)
        self._close()
        if asked.stage == "join":
            self._join(me)
        elif self._at is None or self._at != desk.newest(asked.round - 1):
            self._restore(asked.round - 1)
        me.round = asked.round
        for step, body in enumerate(requests):
            self._advance(asked.stage, asked.round, step, body)

    def _advance(self, stage: Stage, round: int, step: int, body: bytes) -> Arrival:
        """Runs the half to its next exchange, or to its end."""
        assert self._invitation is not None
        assert self._method is not None
        me = self.participant
        self._at = None
        if step == 0:
            arrivals = self._engine.start(stage, [me], getattr(self._method, stage), self._invitation.keep_optimizer)
        else:
            arrivals = self._engine.resume({me.name: self._limits.read(body)})
        (arrival,) = arrivals
        self._live = (stage, round, step) if arrival.exchange is not None else None
        return arrival

    def _letter(self, asked: Work, arrival: Arrival) -> Letter:
        """What is told of where the half has come to. At its end the state is kept first, and the model measured."""
        place: dict[str, Any] = {
            "name": self.participant.name,
            "stage": asked.stage,
            "round": asked.round,
            "step": asked.step,
        }
        if arrival.exchange is not None:
            head = AtExchange(**place, exchange=arrival.exchange.name, seconds=arrival.seconds)
            return head.letter(arrival.exchange.payload.to_bytes())
        self._keep(asked.round)
        metrics = self._measure() if asked.stage == "round" else {}
        return Ended(**place, notes=_plain(arrival.notes), metrics=metrics, seconds=arrival.seconds).letter()

    def _evaluated(self, round: int) -> Letter:
        """Ends a half that the server does not wait for any more; what was learned in it stays, as everywhere."""
        newest = self._seated().newest(round)
        if self._live is not None and newest != self._live[1]:
            self._close()
            self._keep(round)
        elif self._at is None or self._at != newest:
            self._close()
            self._restore(round)
        return Measured(name=self.participant.name, round=round, metrics=self._measure()).letter()

    def _measure(self) -> Metrics:
        me = self.participant
        return self._engine.evaluate({me.name: me}, lambda me: me.test)[me.name]

    def _restore(self, round: int) -> None:
        """Takes up the state after a round."""
        me, desk = self.participant, self._seated()
        number, state = desk.newest(round), desk.state_after(round)
        if state is None:
            raise PayloadError(f"the state after round {round} is not here any more")
        self._join(me)
        me.check_keepable()
        me.restore(state)
        me.round, self._at = round, number

    def _keep(self, round: int) -> None:
        self._seated().keep_state(round, self.participant.snapshot())
        self._at = round

    def _close(self) -> None:
        if self._live is not None:
            self._engine.dismiss(self.participant.name)
            self._live = None

    def _seated(self) -> Desk:
        if self._desk is None:
            raise PayloadError("the server asks for work before the public data are here")
        return self._desk


def _plain(notes: dict[str, Any]) -> dict[str, Any]:
    """Notes as JSON can hold them: a number that is not finite becomes None, as in the history."""
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in notes.items()}
    return {name: None if isinstance(v, float) and not np.isfinite(v) else v for name, v in plain.items()}
