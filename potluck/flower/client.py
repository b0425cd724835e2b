"""A participant's side, in one long-lived process: it holds the model and the data, and answers the server's messages.

The same request gets the same answer, however often it comes: from what was stored, or by running the phase again from
the state before it, which gives the same since every draw comes from seed, name, round and purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch

from potluck.channel.audit_log import AuditLog
from potluck.channel.channel import Audit, Channel
from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError, PotluckError
from potluck.core.exchange_order import Phase
from potluck.core.metrics import Scores
from potluck.core.model_spec import OWN
from potluck.core.party import Arrival
from potluck.core.payload import MAX_BYTES
from potluck.core.samples import Samples, SharedData
from potluck.engines.base import Answering
from potluck.federation.admission import Admission
from potluck.federation.fingerprint import check_resumable, participant_fingerprint
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.flower.channel_end import ChannelEnd
from potluck.flower.client_store import ClientStore, private_folder
from potluck.flower.consent import channel_of, method_class, method_of
from potluck.flower.message_notes import note_message
from potluck.flower.phase_run import PhaseRun
from potluck.flower.policy import Ledger, Policy, PolicyError, reason_for_server
from potluck.flower.protocol import (
    Accepted,
    Acknowledged,
    Advance,
    Declined,
    Evaluate,
    Evaluated,
    ExchangeReached,
    Failed,
    Finished,
    Invitation,
    Message,
    Paused,
    PhaseEnded,
    PublicData,
    other_protocol,
    plain_notes,
    read_request,
)
from potluck.flower.public_data import PublicDataStore
from potluck.flower.site_state import note_invitation

log = logging.getLogger(__name__)

AskConsent = Callable[[Invitation, type[Method]], str | None]
"""Asks the participant's owner: None for yes, or why not."""


class Client:
    """Answers messages, one after the other.

    Args:
        participant: whose half of the method it runs.
        device: what its network computes on.
        folder: where it stores what must last.
        consent: asks its owner whether to take part.
        public: loads its own copy of the public data for a seed; None if it has none.
        allow_imports: each ``"package.module:name"`` that the server may have imported here; by default none.
        max_payload_bytes: how many bytes a payload of the server's may have; by default 2 GiB.
        audit: is called with every payload that is sent and received; by default None.
        policy: what its owner allows, whatever the server asks for; by default everything that it agrees to.
        dry_run: whether its owner only wants to see the terms: it declines, and has finished. By default it does not.
        interruptible: around work that Ctrl-C may cut off: training, measuring, and asking its owner. By default none.
        audit_log: where it notes who asked for what, and what left; by default nowhere.
    """

    def __init__(
        self,
        participant: Participant,
        device: torch.device,
        folder: Path,
        consent: AskConsent,
        *,
        public: Callable[[int], SharedData] | None = None,
        allow_imports: tuple[str, ...] = (),
        max_payload_bytes: int = MAX_BYTES,
        audit: Audit | None = None,
        policy: Policy | None = None,
        audit_log: AuditLog | None = None,
        dry_run: bool = False,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._interruptible = interruptible
        self.participant = participant
        self.farewell: Finished | None = None
        """How the federation ended, once the server has said so."""
        self.played_all = False
        """Whether the last round that was agreed to is over here, so that nothing but a farewell is to come."""
        self.declined: str | None = None
        """Why the last invitation was declined, if it was."""
        self._device = device
        self._folder = folder
        self._consent = consent
        self._public_store = PublicDataStore(folder, public)
        self._allow_imports = allow_imports
        self._max_payload_bytes = max_payload_bytes
        self._audit = audit
        self._policy = policy or Policy()
        self._audit_log, self._dry_run = audit_log, dry_run
        self._own_public = public is not None
        self._ledger: Ledger | None = None
        self._channel = Channel()
        self._invitation: Invitation | None = None
        self._method: Method | None = None
        self._answering: Mapping[str, Answering] = {}
        self._public: SharedData | None = None
        self._store: ClientStore | None = None
        self._half: PhaseRun | None = None
        self._model_of: int | None = None
        """The round after which the model is as it is now, if it is between rounds."""
        self._latest_round = 0  # that this run of the server has come to

    @property
    def progress(self) -> tuple[int, int]:
        """The round that the server has come to, and how many there are; zeros as long as nothing was agreed to."""
        return self._latest_round, 0 if self._invitation is None else self._invitation.rounds

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to answer: the federation has ended, or its invitation was declined."""
        return self.farewell is not None or self.declined is not None

    def answer(self, message: Message) -> Message:
        """The answer to a message. What goes wrong here is in the log here; the server learns only its kind."""
        name, asked = self.participant.name, message.head
        self._note("received", asked, message.body)
        try:
            answer = self._answer(message)
        except Exception as error:
            if self._half is not None:
                self._half.forget()
            if isinstance(error, PayloadError | PolicyError):  # what the server did, in a sentence
                log.warning("%s did not answer: %s", name, error)
            else:
                log.exception("%s could not answer", name)
            self._note("refused", asked, why=str(error)[:500] if isinstance(error, PotluckError) else None)
            return Failed(name=name, error=type(error).__name__).message()
        self._note("sent", answer.head, answer.body)
        return answer

    def _note(self, what: str, head: dict[str, Any], body: bytes = b"", why: str | None = None) -> None:
        """Notes a message in the audit log: who asked for what, and what left; never a value."""
        if self._audit_log is not None:
            note_message(self._audit_log, what, self.participant.name, self._invitation, head, body, why)

    def _answer(self, message: Message) -> Message:
        if len(message.body) > self._max_payload_bytes:
            raise PayloadError(
                f"the payload has {len(message.body)} bytes; `max_payload_bytes` is {self._max_payload_bytes}"
            )
        if (other := other_protocol(message)) is not None:
            return self._declined(message.head, PotluckError(other))
        asked, acknowledged = read_request(message), Acknowledged(name=self.participant.name).message()
        if isinstance(asked, Invitation):
            return self._invited(asked)
        if isinstance(asked, Paused):
            log.warning("The server stops, and may go on later: %s", asked.reason)
            return acknowledged
        if isinstance(asked, Finished):
            self.farewell = asked
            return acknowledged
        if self._invitation is None or self._method is None:
            raise PayloadError("the server asks for work before its invitation was accepted")
        if isinstance(asked, PublicData):
            if self._public is None:
                self._policy.check_public()
                self._public = self._public_store.keep(self._invitation.public, message.body)
                self._prepare(self._invitation, self._method)
            return acknowledged
        if self._store is None:
            raise PayloadError("the server asks for work before the public data are here")
        assert self._ledger is not None
        if isinstance(asked, Evaluate):
            return self._evaluated(self._store, self._ledger, asked.round)
        return self._advanced(self._store, self._ledger, asked, message.body)

    def _invited(self, invitation: Invitation) -> Message:
        """Checks the terms, asks the owner, prepares the participant."""
        self._latest_round = 0
        try:
            if invitation != self._invitation:
                limits = Limits(self._max_payload_bytes)
                channel = channel_of(invitation, self._allow_imports, limits, self._audit)
                kind = method_class(invitation, self._allow_imports)
                if self._dry_run:
                    self._ask(invitation, kind)
                self._policy.check_invitation(invitation, kind, self._own_public)
                self._policy.check_room(invitation, self._folder, self._own_public)
                refused = "its owner looks at the terms" if self._dry_run else self._ask(invitation, kind)
                if refused is not None:
                    raise PotluckError(refused)
                self._accept(invitation, method_of(invitation, self._allow_imports), channel)
                self._note("agreed", invitation.model_dump(mode="json"))
        except PotluckError as error:
            return self._declined(invitation.model_dump(mode="json"), error)
        self.declined = None
        has_public = invitation.public is None or self._public is not None
        return Accepted.of(self.participant, has_public).message()

    def _declined(self, invited: dict[str, Any], error: PotluckError) -> Message:
        """The answer to an invitation to which it cannot agree."""
        log.warning("Declined the invitation: %s", error)
        self._note("refused", invited, why=str(error)[:500])
        self.declined = str(error)
        return Declined(name=self.participant.name, reason=reason_for_server(error)).message()

    def _ask(self, invitation: Invitation, kind: type[Method]) -> str | None:
        with self._interruptible():
            return self._consent(invitation, kind)

    def _accept(self, invitation: Invitation, method: Method, channel: Channel) -> None:
        """Finds the public data, and prepares the participant if they are here."""
        self._forget_invitation()
        private_folder(self._folder)
        public = None
        if invitation.public is not None:
            public = self._public_store.find(invitation.public, invitation.seed)
        self._invitation, self._method, self._channel = invitation, method, channel
        self._answering, self._public = method.answering(), public
        if invitation.public is None or public is not None:
            self._prepare(invitation, method)

    def _forget_invitation(self) -> None:
        """Nothing that was agreed to holds any more: no work is done for another federation in its place."""
        self._invitation, self._method, self._public = None, None, None
        self._store, self._ledger, self._half = None, None, None

    def _prepare(self, invitation: Invitation, method: Method) -> None:
        """Makes the model, checks that all fits, and finds what was stored of this federation."""
        try:
            self._take_up(invitation, method)
        except Exception:
            self._forget_invitation()
            raise

    def _take_up(self, invitation: Invitation, method: Method) -> None:
        me = self.participant
        admission = Admission()
        admission.admit(me, self._join)
        admission.check_fit(method, self._public, alone=True)
        me.check_keepable()
        check_resumable([me], method, invitation.keep_optimizer, self._channel)
        identity = participant_fingerprint(me, method, invitation.keep_optimizer, self._channel)
        folder = self._folder / invitation.federation
        shown = invitation.public
        self._store = ClientStore(folder, identity, "" if shown is None else shown.sha256)
        note_invitation(folder, invitation)
        self._ledger = Ledger(folder / "ledger.json", self._policy, invitation.rounds)
        self._model_of = None
        end = None if self._channel.is_plain else ChannelEnd(self._channel, me)
        self._half = PhaseRun(me, method, invitation.keep_optimizer, self._device, end)

    def _join(self, me: Participant) -> Samples | None:
        """Has the participant join anew; returns what it is tested on."""
        assert self._invitation is not None
        assert self._method is not None
        me.join(self._invitation.seed, self._public, self._method)
        return me.test

    def _advanced(self, store: ClientStore, ledger: Ledger, asked: Advance, body: bytes) -> Message:
        """Takes one step of a phase, or finds the answer that was given before."""
        place = asked.phase, asked.round, asked.step
        if asked.step == 0 and body:
            raise PayloadError(f"{asked.phase} {asked.round} is to begin with a reply, and nothing was sent yet")
        if not store.follows(*place):
            raise PayloadError(
                f"step {asked.step} of {asked.phase} {asked.round} is asked for, and step {asked.step - 1} was not "
                f"answered here"
            )
        stored = store.answer_to(*place, body)
        if stored is not None:
            ledger.send(len(stored.body))
            log.info("Answered again from what was stored: %s %d, step %d", *place)
            return stored
        assert self._invitation is not None
        if asked.round > self._invitation.rounds:
            raise PayloadError(
                f"round {asked.round} was not agreed to; the invitation was to {self._invitation.rounds}"
            )
        if asked.round < self._latest_round:
            raise PayloadError(f"round {asked.round} is past; the server was at {self._latest_round} already")
        self._latest_round = asked.round
        if asked.step == 0:
            ledger.begin(asked.phase)
        ledger.check()
        self._policy.check_message(asked.step)
        assert self._half is not None
        with ledger.work():
            if asked.step == 0 or not self._half.waits_at(asked.phase, asked.round, asked.step - 1):
                self._go_back(store, asked)
            arrival = self._run(*place, body)
            store.forget_from(*place)  # not before: a reply that is refused costs nothing of what was stored
            if arrival.exchange is not None:
                assert self._method is not None
                self._policy.check_exchange(arrival.exchange.name, type(self._method))
            answer = self._response(store, asked, arrival)
        if len(answer.body) > (most := self._invitation.max_payload_bytes):
            raise PayloadError(
                f"the answer has {len(answer.body)} bytes; the server takes {most} (`max_payload_bytes`)"
            )
        ledger.send(len(answer.body))
        store.keep_answer(*place, body, answer)
        return answer

    def _go_back(self, store: ClientStore, asked: Advance) -> None:
        """To the state before the phase, and from there again to the step before the one asked for."""
        me = self.participant
        bodies = store.requests(asked.phase, asked.round, asked.step)
        if self._half is not None:
            self._half.close()
        if asked.phase == "join":
            self._join(me)
        elif self._model_of is None or self._model_of != store.newest_state(asked.round - 1):
            self._restore(store, asked.round - 1)
        me.round = asked.round
        for step, body in enumerate(bodies):
            self._run(asked.phase, asked.round, step, body)

    def _run(self, phase: Phase, round: int, step: int, body: bytes) -> Arrival:
        """Runs the participant's half to its next exchange, or to its end."""
        assert self._half is not None
        self._model_of = None
        with self._interruptible():
            return self._half.to_next(phase, round, step, body)

    def _response(self, store: ClientStore, asked: Advance, arrival: Arrival) -> Message:
        """Where the half has come to. At its end the state is stored first, and the model measured."""
        place: dict[str, Any] = {
            "name": arrival.sender,
            "phase": asked.phase,
            "round": asked.round,
            "step": asked.step,
            "seconds": arrival.seconds,
        }
        if arrival.exchange is not None:
            head = ExchangeReached(**place, exchange=arrival.exchange.name)
            return head.message(arrival.exchange.payload.to_bytes())
        self._keep_state(store, asked.round)
        assert self._invitation is not None
        self.played_all = asked.round == self._invitation.rounds
        scores = self._measured() if asked.phase == "round" else {}
        metrics = scores.pop(OWN, {})
        return PhaseEnded(**place, notes=plain_notes(arrival.notes), metrics=metrics, models=scores).message()

    def _evaluated(self, store: ClientStore, ledger: Ledger, round: int) -> Message:
        """How well it answers after a round.

        A half that the server does not wait for any more ends; what was learned in it stays, as everywhere. How it
        stands after a round is measured once: asked again, with other weights perhaps, it sends what it sent before.
        """
        assert self._invitation is not None
        if not 1 <= round <= self._invitation.rounds:
            raise PayloadError(f"an evaluation of round {round} was not agreed to; there are {self._invitation.rounds}")
        ledger.check()
        if self._half is not None and (left := self._half.close()) is not None and left[0] == "round":
            self._keep_state(store, left[1])
        newest = store.newest_state(round)
        if newest is None:
            raise PayloadError(f"an evaluation of round {round} is asked for, and joining has not ended")
        with ledger.work():
            if self._model_of != newest:
                self._restore(store, round)
            scores = ledger.evaluation(newest)
            if scores is None:
                scores = self._measured()
                ledger.keep_evaluation(newest, scores)
        others = {model: metrics for model, metrics in scores.items() if model != OWN}
        return Evaluated(name=self.participant.name, round=round, metrics=scores[OWN], models=others).message()

    def _measured(self) -> Scores:
        """The metrics that its owner lets leave."""
        with self._interruptible():
            return self._policy.scores(self.participant, self._answering, self._device)

    def _restore(self, store: ClientStore, round: int) -> None:
        """Takes up the state after a round."""
        me = self.participant
        number, state = store.newest_state(round), store.state_after(round)
        if state is None:
            raise PayloadError(f"the state after round {round} is not here any more")
        self._join(me)
        me.check_keepable()
        me.restore(state)
        me.round, self._model_of = round, number

    def _keep_state(self, store: ClientStore, round: int) -> None:
        store.keep_state(round, self.participant.snapshot())
        self._model_of = round
