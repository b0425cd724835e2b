"""Spans of time as people read them."""

from __future__ import annotations

import pytest

from potluck.core.duration import Pace, readable_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.26, "0.3 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (65, "1 min 5 s"),
        (3600, "1 h"),
        (3629, "1 h"),
        (7505, "2 h 5 min"),
        (86400 + 3 * 3600 + 59, "1 d 3 h"),
        (40 * 86400, "40 d"),
    ],
)
def test_the_two_largest_units_are_told(seconds, text):
    assert readable_duration(seconds) == text


def test_the_rest_takes_as_long_as_what_was_done_since_it_was_first_asked():
    now = [100.0]
    pace = Pace(lambda: now[0])
    assert pace.seconds_left(4, 10) is None
    assert pace.in_words(4, 10) == ""
    now[0] = 106.0
    assert pace.seconds_left(7, 10) == 6.0
    assert pace.in_words(7, 10) == "; about 6.0 s left"
    assert pace.in_words(10, 10) == ""
