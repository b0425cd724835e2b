"""What a server's replies must look like, as participants check them before anything is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from potluck.core.payload import Payload
from potluck.core.schema import Schema, check_range, least
from potluck.federation.participant import Participant

ReplyContract = Callable[[Any, Participant, Schema], Schema]
"""(method, participant, what it has sent) → what the reply must look like."""


def nothing(method: Any, me: Participant, sent: Schema) -> Schema:
    """Of a reply that only says that the answer has come."""
    return Schema()


def as_sent(method: Any, me: Participant, sent: Schema) -> Schema:
    """Of a reply with tensors of the names, shapes and types that were sent."""
    return sent


def by_reply_schema(method: Any, me: Participant, sent: Schema) -> Schema:
    """Of a reply that looks as the method's own ``reply_schema`` says, which another method may override."""
    schema: Schema = method.reply_schema(me, sent)
    return schema


def reply_contract(method: type[Any], name: str) -> ReplyContract | None:
    """What an exchange says of its replies, or the nearest of those that it overrides."""
    said = (getattr(vars(kind).get(name), "reply", None) for kind in method.__mro__)
    return next((contract for contract in said if contract is not None), None)


def check_reply(method: Any, name: str, me: Participant, sent: Schema, reply: Payload) -> None:
    """Raises PayloadError for a reply that a participant must not read.

    Args:
        method: the method.
        name: the exchange.
        me: the participant.
        sent: what it has sent there, as the schema of just these tensors.
        reply: what the server replied.
    """
    if (contract := reply_contract(type(method), name)) is not None:
        contract(method, me, sent).check(reply)
        return
    reply.check_facts()
    for entry, tensor in reply.tensors.items():
        check_range(entry, tensor, low=least(entry))
