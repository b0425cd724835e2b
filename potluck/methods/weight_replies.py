"""What replies must look like where weights are shared."""

from __future__ import annotations

from typing import Any

from potluck.core.payload import Payload
from potluck.core.schema import Schema
from potluck.federation.participant import Participant

ASKED_FOR = Schema(facts={"send": list[str]})
"""The names of the entries of which a participant is to send the first values."""


def asked_for(method: Any, me: Participant, sent: Schema) -> Schema:
    """Which first values are to be sent."""
    return ASKED_FOR


def started(method: Any, me: Participant, sent: Schema) -> Schema:
    """The values that all start from, or once more which first values are to be sent."""
    return Start(method.entries_schema(me).tensors)


class Start(Schema):
    """These values, or the names of others."""

    def check(self, payload: Payload) -> None:
        if "send" in payload.facts:
            ASKED_FOR.check(payload)
        else:
            super().check(payload)
