"""Participants that answer the server otherwise than their client does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from potluck.flower.protocol import Message

Lie = Callable[["Liar", Message, Message], Message]
"""(the liar, what was asked, the honest answer) → what is sent."""


class Liar:
    """Answers as its client does, but for one kind of answer.

    Args:
        client: the honest one.
        lie: makes of what was asked and of the honest answer what is sent.
    """

    def __init__(self, client: Any, lie: Lie) -> None:
        self.client, self.lie = client, lie
        self.sent: dict[str, Message] = {}
        """The last message with each exchange."""

    def answer(self, message: Message) -> Message:
        honest = self.client.answer(message)
        answer = self.lie(self, message, honest)
        if "exchange" in answer.head:
            self.sent[answer.head["exchange"]] = answer
        return answer


def instead(of: str, exchange: str, body: bytes | None = None) -> Lie:
    """Comes to another exchange than the one due, or ("end") than the end of its half, with a payload of its own."""

    def lie(liar: Liar, asked: Message, honest: Message) -> Message:
        due = honest.head.get("exchange", honest.head["kind"])
        if asked.head["kind"] != "advance" or due != of or (of == "end" and asked.head["phase"] != "round"):
            return honest
        if exchange == "end":
            place = {name: honest.head[name] for name in ("name", "phase", "round", "step", "seconds")}
            return Message({"kind": "end", **place, "notes": {}, "metrics": {}, "models": {}})
        place = {name: honest.head[name] for name in ("name", "phase", "round", "step", "seconds")}
        before = liar.sent.get(exchange, honest)
        return Message({"kind": "exchange", **place, "exchange": exchange}, before.body if body is None else body)

    return lie
