"""What those who run a federation want of it: to go on, to pause, or to stop. A file in the run folder says it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

CONTROL_FILE = "control"
"""The file's name, in the folder ``flower`` of a run folder."""

Wish = Literal["go", "pause", "stop"]
WISHES: tuple[Wish, ...] = get_args(Wish)


class Control:
    """The file, as both sides see it.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, wish: Wish) -> None:
        """Says what is wanted from now on."""
        draft = self._path.with_suffix(".draft")
        draft.write_text(wish)
        draft.replace(self._path)

    def wish(self) -> Wish:
        """What is wanted: to go on, unless somebody said otherwise."""
        try:
            text = self._path.read_text()
        except FileNotFoundError:
            return "go"
        return next((wish for wish in WISHES if wish == text), "go")

    def clear(self) -> None:
        """Forgets what was wanted of an earlier run."""
        self._path.unlink(missing_ok=True)
