"""What a site says to a server before anything else."""

from __future__ import annotations

import time

import pytest
from pydantic import ValidationError

from potluck.flower.hello import Hello


def test_what_is_signed_names_who_asks_and_when():
    first, second = Hello(name="ann", time=1.5), Hello(name="bob", time=1.5)
    assert first.signed_text() != second.signed_text()
    assert Hello.model_validate_json(first.model_dump_json()).signed_text() == first.signed_text()


def test_a_question_of_another_time_is_told():
    now = time.time()
    assert Hello(name="ann", time=now).is_of_now
    assert not Hello(name="ann", time=now - 3600).is_of_now
    assert not Hello(name="ann", time=now + 3600).is_of_now


@pytest.mark.parametrize(
    "odd", [{"name": ""}, {"name": "a\nb"}, {"time": float("nan")}, {"key": "x" * 5000}, {"more": 1}]
)
def test_what_is_no_question_is_refused(odd):
    with pytest.raises(ValidationError):
        Hello(**{"name": "ann", "time": 1.0, **odd})
