"""The channel between participants and the server: it checks payloads and counts their bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from potluck.channel.limits import Limits
from potluck.core.payload import Payload
from potluck.core.schema import Schema


@dataclass(frozen=True)
class Channel:
    """The route of every payload, the same on every engine.

    Args:
        limits: how large a payload may be; by default ``Limits()``.
    """

    limits: Limits = field(default_factory=Limits)

    def size(self, payload: Payload) -> int:
        """How many bytes are sent."""
        return payload.size

    def check(self, payload: Payload, schema: Schema) -> None:
        """Raises PayloadError, with a message that can follow the sender's name, unless the payload may be read."""
        if self.size(payload) > self.limits.bytes:
            self.limits.check_size(self.size(payload))  # says so
        schema.check(payload)
