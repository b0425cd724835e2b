"""What is no message of Potluck's is refused, whatever it holds."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.core.errors import PayloadError, PotluckError
from potluck.flower.protocol import Message, plain_notes, read_request, read_response


@pytest.mark.parametrize(
    "head",
    [
        {"kind": "advance", "phase": "join", "round": -1, "step": 0},
        {"kind": "advance", "phase": "leave", "round": 1, "step": 0},
        {"kind": "advance", "phase": "join", "round": 1, "step": 0, "more": 1},
        {"kind": "advance", "phase": "join", "round": "1", "step": 0},
        {},
    ],
)
def test_a_head_that_is_none_is_refused(head):
    with pytest.raises(PayloadError):
        read_request(Message(head))
    with pytest.raises(PayloadError):
        read_response(Message(head))


def test_a_damaged_or_endless_head_is_refused():
    for text in (b"{", b"[]", b"[" * 100_000, b'"' + b"x" * 2**21 + b'"'):
        with pytest.raises(PotluckError):
            Message.decode(text)


def test_what_somebody_says_cannot_command_a_terminal_nor_pass_for_several_lines():
    reason = "no\n\x1b[2Jp1 declined: yes"
    declined = read_response(Message({"kind": "declined", "name": "p0", "reason": reason}))
    assert declined.reason == "no\\n\\x1b[2Jp1 declined: yes"
    assert read_request(Message({"kind": "paused", "reason": "\u202elater"})).reason == "\\u202elater"
    for head in (
        {"kind": "failed", "name": "p0", "error": "x\x1b[2J"},
        {"kind": "declined", "name": "p\n0", "reason": ""},
        {
            "kind": "end",
            "name": "p0",
            "phase": "round",
            "round": 1,
            "step": 1,
            "notes": {"n": "a\nb"},
            "metrics": {},
            "models": {},
            "seconds": 1.0,
        },
    ):
        with pytest.raises(PayloadError, match="cannot be read"):
            read_response(Message(head))


def test_notes_are_plain():
    notes = {"a": np.float64(0.5), "b": float("nan"), "c": "x", "d": np.int64(3)}
    assert plain_notes(notes) == {"a": 0.5, "b": None, "c": "x", "d": 3}
