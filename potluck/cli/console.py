"""What the commands show: results on standard output; progress, warnings and errors on standard error.

Progress is for a person who waits: where standard error is not a terminal, `potluck.cli.logs` says how far it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
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
    """A bar that goes away when it is done, with the time left."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def watch_rounds(bar: Progress) -> Callable[[int, int, str], None]:
    """Shows on a bar how many rounds of several runs have been played: for ``compare`` and ``reproduce``."""
    task = bar.add_task("rounds of all runs", total=None)

    def watch(played: int, in_all: int, title: str) -> None:
        if not title:  # what was there before tells nothing about the time left
            bar.reset(task, total=in_all, completed=played)
        else:
            bar.update(task, total=in_all, completed=played, description=f"rounds of all runs; now {title}")

    return watch


class LiveLine(AbstractContextManager["LiveLine"]):
    """One line at a terminal that says how things stand, below all that is printed; nothing elsewhere.

    Args:
        console: where it is.
    """

    def __init__(self, console: Console) -> None:
        self._status = console.status("") if console.is_terminal else None
        self._text = ""

    def __enter__(self) -> LiveLine:
        self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def say(self, text: str) -> None:
        """What it says from now on."""
        if self._status is not None and text != self._text:
            self._text = text
            self._status.update(Text(harmless(text)))

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Away, while somebody is asked something."""
        self.__exit__()
        try:
            yield
        finally:
            self._show()

    def _show(self) -> None:
        if self._status is not None:
            self._status.start()
