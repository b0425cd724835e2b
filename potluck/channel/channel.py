"""The channel between participants and the server: what a payload must look like, and how many bytes it takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from potluck.channel.limits import Limits
from potluck.core.payload import Payload
from potluck.core.schema import Schema


@dataclass(frozen=True)
class Channel:
    """The one way a payload takes, whatever engine carries it.

    Args:
        limits: how large a payload may be.
    """

    limits: Limits = field(default_factory=Limits)

    def size(self, payload: Payload) -> int:
        """How many bytes travel."""
        return payload.size

    def check(self, payload: Payload, schema: Schema) -> None:
        """Raises PayloadError, in words that can follow the sender's name, for what must not be read."""
        self.limits.check_size(self.size(payload))
        schema.check(payload)
