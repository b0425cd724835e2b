"""How large a payload may be before anything in it is looked at."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from potluck.core.errors import PayloadError
from potluck.core.payload import MAX_BYTES, MAX_FACTS, MAX_TENSORS, Payload


@dataclass(frozen=True)
class Limits:
    """What one payload may take.

    Args:
        bytes: how many bytes it may have as it travels.
        tensors: how many tensors it may hold.
        facts: how many characters its facts may have, as JSON.
    """

    bytes: int = MAX_BYTES
    tensors: int = MAX_TENSORS
    facts: int = MAX_FACTS

    def check_size(self, size: int) -> None:
        """Raises PayloadError for more bytes than there may be."""
        if size > self.bytes:
            raise PayloadError(f"the payload has {size} bytes; the limit is {self.bytes}")

    def read(self, data: builtins.bytes, *, finite: bool = True) -> Payload:
        """The payload in what came from the other side, refusing what is damaged or too large."""
        self.check_size(len(data))
        return Payload.from_bytes(data, max_tensors=self.tensors, max_facts=self.facts, finite=finite)
