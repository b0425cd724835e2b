"""Text that came from elsewhere, shown so that no terminal, log or page obeys it."""

from __future__ import annotations


def harmless(text: str) -> str:
    """A text whose characters can all be shown, but for tabs and the ends of lines: others stand as their numbers."""
    return "".join(char if char.isprintable() or char in "\n\t" else ascii(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    """The same on one line, so that it cannot pass for several."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
