"""Spans of time for people, such as 1 h 5 min."""

from __future__ import annotations

UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
"""Seconds of each unit, the largest first."""


def readable_duration(seconds: float) -> str:
    """A span of time in its two largest units, e.g. 2 d 3 h or 1 min 5 s; below ten seconds with a digit."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    left, parts = round(seconds), list[str]()
    for size, unit in UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))
