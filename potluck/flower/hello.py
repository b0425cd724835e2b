"""What a site and a server say to each other before anything else: who asks, and how that one stands with the server.

It is asked of the server's own port, over its TLS, and signed with the site's key; nothing of it concerns any data.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

from pydantic import Field

from potluck.flower.protocol import Head, ShortText, Words

PATH = "/potluck/hello"
"""Where it is asked."""
MAX_BYTES = 2**16
"""How many bytes a question may have."""
TOLERANCE = 300.0
"""How many seconds the clocks of both sides may be apart."""

SiteStanding = Literal[
    "welcome", "unknown name", "other name", "no key", "unknown key", "revoked", "unsigned", "other clock"
]
"""How somebody stands with a server."""


class Hello(Head):
    """Who asks.

    Args:
        name: what its file calls it.
        key: the public half of its key, as PEM; None where there is none.
        time: when it asks, in seconds since 1970.
        seal: what the key signed; None where there is none.
    """

    name: ShortText
    key: Annotated[str, Field(max_length=4096)] | None = None
    time: float
    seal: Annotated[str, Field(max_length=4096)] | None = None

    def signed_text(self) -> bytes:
        """What the key signs."""
        return f"potluck hello\n{self.name}\n{self.time!r}".encode()

    @property
    def is_of_now(self) -> bool:
        """Whether it was asked just now."""
        return abs(time.time() - self.time) <= TOLERANCE


class DoorAnswer(Head):
    """How somebody stands with a server.

    Args:
        protocol: the server's version of the protocol.
        potluck: the server's version of Potluck.
        standing: how the one who asks stands.
        known_as: by which name the server knows its key, where it does; by default None.
        invitation: what the server will ask of it, once it knows that; by default None.
    """

    protocol: int
    potluck: Words
    standing: SiteStanding
    known_as: Words | None = None
    invitation: dict[str, Any] | None = None
