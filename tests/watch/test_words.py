"""Times, values and small pictures, for people."""

from __future__ import annotations

import pytest

from potluck.watch.words import duration, sparkline, value


def test_a_sparkline_goes_from_the_lowest_to_the_highest():
    assert sparkline([]) == ""
    assert sparkline([0.0, 3.5, 7.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▅▅"
    assert sparkline([0.0, 0.0, 7.0, 7.0], width=2) == "▁█"
    assert sparkline([float(n) for n in range(1000)], width=8) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (None, "–"), (0.4, "0 s"), (59.9, "59 s"), (60, "1 min 00 s"), (3599, "59 min 59 s"), (3600, "1 h 00 min"),
        (47.5 * 3600, "47 h 30 min"), (50 * 3600, "2 d 2 h"),
    ],
)  # fmt: skip
def test_a_time(seconds, told):
    assert duration(seconds) == told


def test_a_value():
    assert (value(None, True), value(0.1234, True), value(12.3456, False)) == ("–", "12.34%", "12.35")
