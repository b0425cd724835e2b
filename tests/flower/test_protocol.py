"""What is no message of Potluck's is refused, whatever it holds."""

from __future__ import annotations

import pytest

from potluck.core.errors import PayloadError, PotluckError
from potluck.flower.protocol import Message, read_request, read_response


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
