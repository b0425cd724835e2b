"""Times are taken turn by turn; the first time and warming up do not count. The machine is described."""

from __future__ import annotations

import time

import pytest

from potluck.bench.measure import busy_warning, interleaved, machine_in_words, ratios


def test_actions_take_turns():
    calls: list[str] = []
    timings = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, warm_up=2)
    assert calls == ["a", "b"] * 5
    assert [len(timing.seconds) for timing in timings.values()] == [3, 3]


def test_the_first_time_is_apart():
    pauses = iter([0.05, 0.0, 0.0, 0.0])
    timing = interleaved({"a": lambda: time.sleep(next(pauses))}, repeats=3)["a"]
    assert timing.first >= 0.05 > timing.median
    assert timing.median == sorted(timing.seconds)[1]


def test_ratios_are_taken_turn_by_turn():
    assert ratios([2.0, 6.0], [1.0, 2.0]) == [2.0, 3.0]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_the_machine_is_told_in_words():
    assert machine_in_words({"cpu": "C", "cores": 2, "gpu": "G", "torch": "2"}) == "C, 2 cores, G, torch 2"


def test_a_busy_machine_gets_a_warning():
    assert busy_warning({"cores": 2, "load_before": 0.5}) is None
    assert "load 0.6 on 2 cores" in str(busy_warning({"cores": 2, "load_before": 0.6}))
