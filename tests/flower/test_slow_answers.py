"""Who is told to be slow, and when."""

from __future__ import annotations

from potluck.flower.slow_answers import SLOW_AFTER, SlowAnswers

NAMES = ("a", "b", "c", "d")


def test_nobody_is_slow_at_first_however_quick_the_others_are():
    slow = SlowAnswers(dict.fromkeys(NAMES, 1000.0))
    for _ in range(3):
        slow.took.append(0.1)
    assert slow.among(["d"], SLOW_AFTER) == []
    assert slow.among(["d"], SLOW_AFTER + 1) == ["d"]


def test_twice_what_most_of_the_others_took_is_slow():
    slow = SlowAnswers(dict.fromkeys(NAMES, 10_000.0))
    slow.took.append(100.0)
    assert slow.among(["b", "c", "d"], 500.0) == []  # one of four says nothing of what is usual
    slow.took.append(120.0)
    slow.took.append(140.0)
    assert slow.among(["d"], 240.0) == []
    assert slow.among(["d"], 241.0) == ["d"]


def test_half_of_the_time_that_one_has_is_slow_whatever_the_others_do():
    slow = SlowAnswers({"a": 100.0, "b": 400.0})
    assert slow.among(["a", "b"], 51.0) == ["a"]
    assert slow.among(["a", "b"], 201.0) == ["b"]


def test_each_is_told_of_once():
    slow = SlowAnswers({"a": 100.0})
    assert [slow.among(["a"], 60.0), slow.among(["a"], 70.0)] == [["a"], []]
