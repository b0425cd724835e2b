"""A participant's end of the channel, on its own machine."""

from __future__ import annotations

from potluck.channel.channel import Channel
from potluck.channel.route import Direction, Route, Routes
from potluck.core.payload import Payload
from potluck.core.requests import Exchange
from potluck.federation.participant import Participant


class ChannelEnd:
    """Codes what a participant sends, and decodes the server's replies; what codecs remember is the participant's.

    Args:
        channel: the channel, as the server's invitation names it.
        participant: the participant.
    """

    def __init__(self, channel: Channel, participant: Participant) -> None:
        self._channel, self._participant = channel, participant
        self._routes = Routes(participant.seed)
        self._exchange = ""

    def begin(self) -> None:
        """A phase begins."""
        self._routes.begin()

    def send(self, exchange: Exchange) -> Exchange:
        """What travels at an exchange."""
        me, self._exchange = self._participant, exchange.name
        coded = self._channel.encode(exchange.payload, self._route("up"), me.codec_memory)
        return Exchange(exchange.name, coded.payload)

    def receive(self, payload: Payload) -> Payload:
        """What is read of the reply to the exchange before."""
        memory, route = self._participant.codec_memory, self._route("down")
        reply = self._channel.decode(payload, route, memory)
        if self._channel.remembers_received:
            self._channel.remember(reply, route, memory)
        return reply

    def _route(self, direction: Direction) -> Route:
        return self._routes.next(self._participant.name, self._participant.round, self._exchange, direction)
