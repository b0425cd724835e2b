"""How large a payload may be, checked before anything in it is read."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from potluck.core.errors import PayloadError
from potluck.core.payload import MAX_BYTES, MAX_FACTS, MAX_TENSORS, Payload


@dataclass(frozen=True)
class Limits:
    """What one payload may take.

    Args:
        bytes: how many bytes it may have as it is sent; by default 2 GiB.
        tensors: how many tensors it may hold; by default 100,000.
        facts: how many characters its facts may have, as JSON; by default 2²⁴.
    """

    bytes: int = MAX_BYTES
    tensors: int = MAX_TENSORS
    facts: int = MAX_FACTS

    def check_size(self, size: int) -> None:
        """Raises PayloadError for more bytes than there may be."""
        if size > self.bytes:
            raise PayloadError(f"the payload has {size} bytes; the limit is {self.bytes}")

    def read(self, data: builtins.bytes, *, finite: bool = True) -> Payload:
        """The payload in bytes that were received; raises PayloadError for what is damaged or too large."""
        self.check_size(len(data))
        return Payload.from_bytes(data, max_tensors=self.tensors, max_facts=self.facts, finite=finite)
