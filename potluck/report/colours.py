"""The colours of pages and figures, in the light and in the dark. Lines are told apart by dashes, too.

The series are those of Okabe and Ito, which people with any kind of colour vision tell apart; some are darker here on
paper, and lighter in the dark, so that each stands out by a contrast of at least 3.
"""

from __future__ import annotations

LIGHT = {
    "paper": "#fbfaf7",
    "shade": "#f1ede4",
    "line": "#e4dfd5",
    "ink": "#22303a",
    "soft": "#55616a",
    "good": "#00663f",
    "series-0": "#0072b2",
    "series-1": "#d55e00",
    "series-2": "#008461",
    "series-3": "#b3588e",
    "series-4": "#b27100",
    "series-5": "#2f8ac4",
    "series-6": "#6b6f73",
}
"""By name, on paper."""

DARK = {
    "paper": "#14191e",
    "shade": "#20272e",
    "line": "#37414a",
    "ink": "#eceae5",
    "soft": "#b3bcc3",
    "good": "#5fd3a4",
    "series-0": "#5db3ec",
    "series-1": "#ff8a3d",
    "series-2": "#2fc79b",
    "series-3": "#e08fc0",
    "series-4": "#e6a93a",
    "series-5": "#8fd0f7",
    "series-6": "#a5abb0",
}
"""By the same names, in the dark."""

SERIES = [colour for name, colour in LIGHT.items() if name.startswith("series")]
DASHES: list[list[int]] = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]
"""How a line is dashed; after each round of colours comes the next kind."""
