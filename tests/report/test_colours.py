"""Text can be read and lines be seen, on paper and in the dark, by the contrast that WCAG 2.2 asks for."""

from __future__ import annotations

import pytest

from potluck.report.colours import DARK, LIGHT


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_stand_out(colours):
    for text in ("ink", "soft", "good"):
        assert contrast(colours[text], colours["paper"]) >= 4.5
    assert contrast(colours["ink"], colours["shade"]) >= 4.5
    for name, colour in colours.items():
        if name.startswith("series"):
            assert contrast(colour, colours["paper"]) >= 3, name


def test_both_have_the_same_names():
    assert list(LIGHT) == list(DARK)
