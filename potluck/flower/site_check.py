"""Looks a participant's file over before it joins: data, model, key, address, server and terms, each told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from pydantic import ValidationError

from potluck.channel.limits import Limits
from potluck.core.errors import PotluckError
from potluck.core.inputs import describe
from potluck.core.samples import SharedData
from potluck.engines.base import Session
from potluck.engines.hardware import pick_device
from potluck.federation.admission import Admission
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.flower.certificates import date_of, fingerprint, read_certificate, warn_of_end
from potluck.flower.config import ParticipantFile
from potluck.flower.consent import channel_of, method_class, method_of
from potluck.flower.protocol import Invitation
from potluck.flower.public_data import PublicDataStore
from potluck.flower.reach import ReachedServer, ReachError, Site, reach
from potluck.methods import Local

ROWS = 32
"""On how many rows a model takes its step, at most."""


@dataclass(frozen=True)
class Finding:
    """What was found out about one thing.

    Args:
        what: the thing.
        text: what was found, or what to do about it.
        fine: whether it is as it should be; None for a warning.
    """

    what: str
    text: str
    fine: bool | None = True


class SiteCheck:
    """Everything that a participant needs, looked at one after the other.

    Args:
        settings: the participant's file.
        server: the server's address; None to look at what is here alone.
    """

    def __init__(self, settings: ParticipantFile, server: str | None) -> None:
        self._settings, self._server = settings, server
        self._me: Participant | None = None
        self._reached: ReachedServer | None = None

    def findings(self) -> Iterator[Finding]:
        """What is found, as it is found. What cannot be looked at after something else went wrong is left out."""
        yield from self._findings("data", self._data)
        if self._me is not None:
            yield from self._findings("model", partial(self._model, self._me))
        yield from self._findings("key", self._key)
        if self._server is None:
            return
        yield from self._findings("server", partial(self._reach, self._server))
        if self._reached is not None:
            yield from self._findings("terms", partial(self._terms, self._reached))

    def _findings(self, what: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
        try:
            yield from look()
        except PotluckError as error:
            yield Finding(what, str(error), fine=False)

    def _data(self) -> Iterator[Finding]:
        me = self._settings.build()
        data = me.thing("brought")
        yield Finding("data", f"{len(data)} samples of {describe(me.kinds)}; {me.task}")
        if (test := me.thing("brought test")) is not None:
            yield Finding("test data", f"{len(test)} samples")
        else:
            yield Finding("test data", "there are none, so nobody will know how good the model is: set `test`", None)
        self._me = me

    def _model(self, me: Participant) -> Iterator[Finding]:
        """Builds the model, and has a copy of the participant take one step on some of its rows."""
        me.join(0, None, Local())
        me.check_keepable()
        brought = me.thing("brought")
        few = brought.take(torch.arange(min(ROWS, len(brought))))
        if not me.learner.shows_layers and me.labelled:
            few = brought.few_of_each()  # an estimator must see each label
        twin = me.holding(few, None)
        twin.plan = me.plan.replace(epochs=1, batch_size=len(few))
        twin.join(0, None, Local())
        began, session = time.perf_counter(), Session(twin, Local().round(twin), "round", keep_optimizer=False)
        session.advance_alone(None, pick_device(self._settings.device))
        took, kind = time.perf_counter() - began, type(me.model).__name__
        size = sum(tensor.numel() for tensor in me.network.tensors().values()) if me.learner.shows_layers else None
        built = f"{kind} is built" + (f", {size:,} parameters" if size is not None else "")
        yield Finding("model", f"{built}, and takes a step on {len(few)} samples in {took:.2g} s")

    def _key(self) -> Iterator[Finding]:
        settings = self._settings
        if settings.key is not None:
            yield Finding("key", f"{Path(settings.key).name}, SHA-256 {fingerprint(settings.key)[:16]}…")
        if settings.root_certificates is None:
            yield Finding("authority", "none: nothing is encrypted, for a trial on one machine alone", None)
            return
        authority = read_certificate(Path(settings.root_certificates))
        warning = warn_of_end(f"{Path(settings.root_certificates).name}", authority)
        ends = f"{Path(settings.root_certificates).name}, until {date_of(authority)}"
        yield Finding("authority", warning or ends, None if warning else True)

    def _reach(self, server: str) -> Iterator[Finding]:
        settings = self._settings
        site = Site(settings.name, settings.root_certificates, settings.key)
        found = reach(server, site)
        tls = "" if found.certificate is None else f" with TLS, its certificate until {date_of(found.certificate)}"
        yield Finding("server", f"{server} answers{tls}")
        for warning in found.warnings(site)[: 1 if found.certificate is not None else 0]:
            yield Finding("certificate", warning, None)
        if found.answer is None:
            yield Finding("name", "this server does not say whom it knows: it is Flower's own", None)
            return
        yield Finding("name", f"the server knows {settings.name!r}")
        self._reached = found

    def _terms(self, reached: ReachedServer) -> Iterator[Finding]:
        """What the server will ask for, beside what the policy allows and what the method needs."""
        assert reached.answer is not None
        if reached.answer.invitation is None:
            yield Finding("terms", "the server has not said yet what it asks for; look again in a moment", None)
            return
        try:
            invitation = Invitation.model_validate(reached.answer.invitation)
        except ValidationError as error:
            raise ReachError(f"What the server asks for cannot be read: {error.errors()[0]['msg']}.") from error
        settings, policy = self._settings, self._settings.policy
        allowed = tuple(settings.allow_imports)
        kind = method_class(invitation, allowed)
        policy.check_invitation(invitation, kind, settings.public is not None)
        method = method_of(invitation, allowed)
        channel_of(invitation, allowed, Limits(settings.max_payload_bytes), None)
        yield Finding("policy", f"it allows what the server asks for: {invitation.method}, {invitation.rounds} rounds")
        public = None
        if invitation.public is not None and settings.public is not None:
            public = PublicDataStore(Path(), settings.public.load).find(invitation.public, invitation.seed)
            yield Finding("public data", f"{invitation.public.count} samples, the same as the server's")
        if self._me is not None:
            self._fit(self._me, method, invitation, public)
            yield Finding("method", f"{invitation.method} can use the model and the data")

    def _fit(self, me: Participant, method: Method, invitation: Invitation, public: SharedData | None) -> None:
        """Raises RequirementsError where the method cannot use this participant."""
        if invitation.public is not None and public is None:
            return  # which the server sends on joining
        admission = Admission()

        def join(participant: Participant) -> None:
            participant.join(invitation.seed, public, method)

        admission.admit(me, join)
        admission.check_fit(method, public, alone=True)
