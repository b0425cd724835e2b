"""What came from elsewhere is shown, and not obeyed."""

from __future__ import annotations

import pytest

from potluck.core.harmless import harmless, one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zürich 学", "Zürich 学"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb\u200b", "a\\u202eb\\u200b"),
        ("a\rb\x07", "a\\rb\\x07"),
        ("a\u2028b", "a\\u2028b"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_by_its_number(text, shown):
    assert harmless(text) == one_line(text) == shown


def test_one_line_stays_one():
    assert harmless("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == "a\\n\\tb"
