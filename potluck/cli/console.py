"""What the commands show: results on standard output; progress, warnings and errors on standard error.

Progress is for a person who waits: there is none where standard error is not a terminal.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from potluck.core.harmless import harmless


def messages() -> Console:
    """Where everything but results goes. What comes from another machine is text there, and never a command."""
    return HarmlessConsole(stderr=True, highlight=False, soft_wrap=True)


class HarmlessConsole(Console):
    """Shows characters that a terminal would obey, such as escape sequences, by their numbers."""

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(harmless(each) if isinstance(each, str) else each for each in objects), **settings)


def waiting(doing: str, console: Console) -> AbstractContextManager[object]:
    """Says what is being waited for."""
    return console.status(doing) if console.is_terminal else nullcontext()


def progress(console: Console) -> Progress:
    """A bar that goes away when it is done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class Warnings(logging.Handler):
    """Shows what is logged, above a progress bar if there is one.

    Args:
        console: where they are shown.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        self.console.print(Text(harmless(record.getMessage())))
