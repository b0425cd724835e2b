"""What is due to a participant in a phase, and what is not."""

from __future__ import annotations

import pytest

from potluck.core.exchange_order import ExchangeOrder, ExchangeTurn

TURNS = {
    "greet": ExchangeTurn("join"),
    "start": ExchangeTurn("join", repeats=True),
    "fetch": ExchangeTurn(optional=True),
    "weights": ExchangeTurn(),
    "step": ExchangeTurn(repeats=True),
    "look": ExchangeTurn(optional=True, repeats=True),
}


def walked(phase, *names):
    """What is wrong with the last step of a course, whose others are right."""
    course = ExchangeOrder(phase, TURNS)
    for name in names[:-1]:
        assert course.come_to(name) is None, name
    return course.end() if names[-1] == "end" else course.come_to(names[-1])


@pytest.mark.parametrize(
    ("phase", "names", "wrong"),
    [
        ("join", ["greet", "start", "end"], None),
        ("join", ["greet", "start", "start", "start", "end"], None),
        ("join", ["start"], "'start' came before 'greet'"),
        ("join", ["end"], "it ended before 'greet'"),
        ("join", ["greet", "greet"], "'greet' came twice, or too late"),
        ("join", ["greet", "start", "greet"], "'greet' came twice, or too late"),
        ("join", ["weights"], "'weights' belongs to a round and came in joining"),
        ("round", ["greet"], "'greet' belongs to joining and came in a round"),
        ("round", ["weights", "step", "end"], None),
        ("round", ["fetch", "weights", "step", "look", "end"], None),
        ("round", ["fetch", "weights", "step", "look", "step", "look", "look", "end"], None),
        ("round", ["weights", "fetch"], "'fetch' came twice, or too late"),
        ("round", ["weights", "weights"], "'weights' came twice, or too late"),
        ("round", ["fetch", "step"], "'step' came before 'weights'"),
        ("round", ["weights", "end"], "it ended before 'step'"),
        ("round", ["we\u200bights"], "'we\\u200bights' is no exchange of the method"),
    ],
)
def test_what_is_due(phase, names, wrong):
    assert walked(phase, *names) == wrong


def test_where_a_method_has_no_exchange_nothing_is_due():
    assert ExchangeOrder("round", {}).end() is None
    assert ExchangeOrder("round", {}).come_to("x") == "'x' is no exchange of the method"
