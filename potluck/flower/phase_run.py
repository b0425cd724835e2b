"""A participant's half of a phase on its own machine, taken from one of the server's requests to the next."""

from __future__ import annotations

import time

import torch

from potluck.core.errors import PayloadError
from potluck.core.exchange_order import Phase
from potluck.core.job import Job
from potluck.core.party import Arrival
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.core.schema import Schema
from potluck.engines.base import Done, Session
from potluck.federation.method import Method
from potluck.federation.participant import Participant
from potluck.federation.replies import check_reply
from potluck.flower.channel_end import ChannelEnd

Place = tuple[Phase, int, int]
"""A phase, its round, and a step in it."""


class PhaseRun:
    """Runs one half after the other, and knows at which exchange the present one waits for the server's reply.

    Args:
        participant: whose half.
        method: what it does.
        keep_optimizer: whether optimizers remember, unless something else is said of a model.
        device: what its network computes on.
        end: its end of the channel, where payloads are coded; None if they are not.
    """

    def __init__(
        self,
        participant: Participant,
        method: Method,
        keep_optimizer: bool,
        device: torch.device,
        end: ChannelEnd | None,
    ) -> None:
        self._me, self._method, self._keep_optimizer = participant, method, keep_optimizer
        self._device, self._end = device, end
        self._session: Session | None = None
        self._at: Place | None = None
        self._exchange, self._sent = "", Schema()  # at which it waits, and what it sent there

    def waits_at(self, phase: Phase, round: int, step: int) -> bool:
        """Whether it has come to an exchange at this step, and waits for the reply."""
        return self._session is not None and self._at == (phase, round, step)

    def to_next(self, phase: Phase, round: int, step: int, body: bytes) -> Arrival:
        """Takes the half to its next exchange, or to its end.

        Args:
            phase: the phase.
            round: its round.
            step: how many replies came before; with 0 it begins.
            body: the server's reply.
        """
        me = self._me
        if step == 0:
            if self._end is not None:
                self._end.begin()
            self._session = Session(me, getattr(self._method, phase)(me), phase, self._keep_optimizer)
        session = self._session
        if session is None:
            raise PayloadError(f"step {step} of {phase} {round} is asked for, which ended before it")
        reply = None if step == 0 else self._read(body)
        began = time.perf_counter()
        reached = session.go_on(self._taken(session, reply), self._device)
        session.seconds += time.perf_counter() - began
        if isinstance(reached, Exchange):
            self._at, self._exchange = (phase, round, step), reached.name
            self._sent = Schema.of(reached.payload.tensors)
            coded = reached if self._end is None else self._end.send(reached)
            return Arrival(me.name, coded, seconds=session.seconds)
        self.forget()
        return Arrival(me.name, None, reached.value or {}, session.seconds)

    def _read(self, body: bytes) -> Payload:
        """A reply of the server's, checked."""
        received = Payload.from_bytes(body)
        reply = received if self._end is None else self._end.receive(received)
        check_reply(self._method, self._exchange, self._me, self._sent, reply)
        return reply

    def _taken(self, session: Session, reply: Payload | None) -> Job | Exchange | Done:
        """What the half asks for next. What it cannot make of a reply is the server's doing."""
        if reply is None:
            return session.advance(None)
        try:
            return session.advance(reply)
        except Exception as error:
            message = f"the reply in {self._exchange!r} cannot be used ({type(error).__name__}: {str(error)[:200]})"
            raise PayloadError(message) from error

    def close(self) -> Place | None:
        """Ends a half that waits at an exchange; says where that was."""
        if self._session is None:
            return None
        self._session.close()
        self.forget()
        return self._at

    def forget(self) -> None:
        """A half that has ended, or failed, does not go on."""
        self._session = None
