"""Spans of time as people read them."""

from __future__ import annotations

import pytest

from potluck.core.duration import readable_duration


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
