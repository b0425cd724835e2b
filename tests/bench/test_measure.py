"""Ways take turns; the first time and warming up do not count."""

from __future__ import annotations

import time

import pytest

from potluck.bench.measure import in_turns, ratios


def test_ways_take_turns():
    calls: list[str] = []
    timings = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, warm_up=2)
    assert calls == ["a", "b"] * 5
    assert [len(timing.seconds) for timing in timings.values()] == [3, 3]


def test_the_first_time_is_apart():
    pauses = iter([0.05, 0.0, 0.0, 0.0])
    timing = in_turns({"a": lambda: time.sleep(next(pauses))}, repeats=3)["a"]
    assert timing.first >= 0.05 > timing.median
    assert timing.median == sorted(timing.seconds)[1]


def test_ratios_are_taken_turn_by_turn():
    assert ratios([2.0, 6.0], [1.0, 2.0]) == [2.0, 3.0]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])
