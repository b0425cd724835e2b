"""The ends of the channel on this machine: which payload is coded with what, and what each side remembers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from potluck.channel.channel import Channel, Coded, Memory
from potluck.channel.route import Direction, Route, Routes
from potluck.core.payload import Payload
from potluck.core.schema import Schema
from potluck.federation.participant import Participant
from potluck.federation.server import Server


class ChannelEnds:
    """Codes what local participants send when they send it, and the server's replies when they are handed out.

    What a participant's codecs remember is the participant's; what the server's remember of it is the server's. What a
    participant received last, which both sides know, is held once, at the server, and for two rounds.

    Args:
        channel: the channel.
        server: the server.
        timing: phase of a profile → what counts the seconds inside.
    """

    def __init__(self, channel: Channel, server: Server, timing: Mapping[str, AbstractContextManager[None]]) -> None:
        self._channel, self._server, self._timing = channel, server, timing
        self._remembers = channel.remembers_received
        self._routes = Routes(server.seed)
        self._on_the_way: dict[str, Coded] = {}
        self._round = 0

    def begin(self, round: int) -> None:
        """A phase begins. Joining is of round 0, whenever it happens."""
        self._routes.begin()
        self._round, self._on_the_way = round, {}
        if self._remembers and round:
            for memory in self._server.codec_memory.values():
                self._channel.forget(memory, round)

    def send(self, sender: Participant, exchange: str, payload: Payload) -> None:
        """Codes what a participant on this machine sends, while it is in memory. Elsewhere it is coded already."""
        if sender.is_local:
            with self._timing["channel"]:
                route, known = self._route(sender, exchange, "up"), self._memory(sender).get("received", {})
                coded = self._channel.encode(payload, route, sender.codec_memory, known)
            self._on_the_way[sender.name] = coded

    def travelling(self, sender: Participant, payload: Payload) -> Payload:
        """What travels of what a participant sends."""
        return self._on_the_way[sender.name].payload if sender.name in self._on_the_way else payload

    def read(self, sender: Participant, exchange: str, payload: Payload, schema: Schema) -> Payload:
        """What the server reads of it, within its schema's bounds. Raises PayloadError for what cannot be decoded."""
        with self._timing["channel"]:
            if (coded := self._on_the_way.pop(sender.name, None)) is not None:
                read = coded.received
            else:
                read = self._channel.decode(payload, self._route(sender, exchange, "up"), self._memory(sender), schema)
            return schema.nearest(read) if self._channel.codecs(exchange, "up") else read

    def reply(self, receiver: Participant, exchange: str, payload: Payload) -> tuple[Payload, Payload]:
        """What travels of the server's reply, and what the engine hands out: on this machine, what is read of it."""
        with self._timing["channel"]:
            route, memory = self._route(receiver, exchange, "down"), self._memory(receiver)
            coded = self._channel.encode(payload, route, memory)
            if self._remembers:
                self._channel.remember(coded.received, route, memory)
            return coded.payload, coded.received if receiver.is_local else coded.payload

    def forget(self, participant: Participant) -> None:
        """Nobody knows what it received last, since its half ended early."""
        if not participant.is_local:
            self._memory(participant).pop("received", None)

    def _memory(self, participant: Participant) -> Memory:
        return self._server.codec_memory.setdefault(participant.name, {})

    def _route(self, participant: Participant, exchange: str, direction: Direction) -> Route:
        return self._routes.next(participant.name, self._round, exchange, direction)
