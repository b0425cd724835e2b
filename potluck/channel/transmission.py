"""What an audit function receives of a payload that passes the channel."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from potluck.channel.route import Route
from potluck.core.architecture import Layout, layout_of
from potluck.core.payload import Payload


@dataclass(frozen=True)
class Transmission:
    """A payload that passes.

    Args:
        route: participant, round, exchange, direction.
        sent: what travels.
        received: what is read: the names and shapes that the method knows.
    """

    route: Route
    sent: Payload
    received: Payload

    @property
    def tensors(self) -> Layout:
        """The names, types and shapes of its tensors, as they are read."""
        return layout_of(self.received.tensors)

    @property
    def facts(self) -> list[str]:
        """The names of its facts."""
        return list(self.received.facts)

    @property
    def bytes(self) -> int:
        """How many bytes travel."""
        return self.sent.size

    @property
    def uncoded_bytes(self) -> int:
        """How many bytes would travel without codecs."""
        return self.received.size

    @cached_property
    def sha256(self) -> str:
        """The checksum of the bytes that travel."""
        return hashlib.sha256(self.sent.to_bytes()).hexdigest()
