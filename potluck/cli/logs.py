"""What a command says while it works: Python's log under ``potluck``, for a terminal, for a file, or as JSON.

At a terminal that is warnings, and one live line beside them. Where standard error is no terminal, as under SLURM or
systemd, it is a line for each round, with the time.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from potluck.cli.console import HarmlessConsole, messages
from potluck.core.harmless import harmless

AS_JSON, LEVEL = "potluck.log_json", "potluck.log_level"
"""Where the context of a command has it whether messages are JSON, and from which level on, for its errors, too."""


class Level(StrEnum):
    """How much is said."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _note_level(context: typer.Context, level: Level | None) -> Level | None:
    context.meta[LEVEL] = level
    return level


def _note_form(context: typer.Context, as_json: bool) -> bool:
    context.meta[AS_JSON] = as_json
    return as_json


LogLevel = Annotated[
    Level | None,
    typer.Option(
        help="How much to say while it works.",
        show_default="info; at a terminal what fits there",
        callback=_note_level,
    ),
]

LogJson = Annotated[
    bool, typer.Option("--log-json", help="Say it as JSON, an object on each line.", callback=_note_form)
]


class JsonConsole(HarmlessConsole):
    """Says everything as an object on a line of its own, also what is not logged."""

    def print(self, *objects: Any, **settings: Any) -> None:
        self.tell("info", "potluck.cli", " ".join(str(each) for each in objects), time.time())

    def tell(self, level: str, logger: str, message: str, when: float, **facts: Any) -> None:
        """One line."""
        at = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
        told = {"time": at, "level": level, "logger": logger, "message": message, **facts}
        self.file.write(json.dumps(told, default=str) + "\n")
        self.file.flush()


def log_console(as_json: bool) -> Console:
    """Where a command says what it does."""
    return JsonConsole(stderr=True, force_terminal=False) if as_json else messages()


class LogLines(logging.Handler):
    """Shows what is logged, above a live line if there is one.

    Args:
        console: where it is shown.
        level: from which level on.
        times: whether a line begins with the time.
        tracebacks: whether the traceback of an error follows; by default only where everything is shown.
    """

    def __init__(self, console: Console, level: int, times: bool, tracebacks: bool = False) -> None:
        super().__init__(level)
        self._console, self._times = console, times
        self._tracebacks = tracebacks or level <= logging.DEBUG

    def emit(self, record: logging.LogRecord) -> None:
        text, trace = record.getMessage(), ""
        if record.exc_info and self._tracebacks:
            trace = logging.Formatter().formatException(record.exc_info)
        if isinstance(self._console, JsonConsole):
            facts = {**getattr(record, "facts", {}), **({"traceback": trace} if trace else {})}
            self._console.tell(record.levelname.lower(), record.name, text, record.created, **facts)
            return
        if self._times:
            text = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(record.created))} {text}"
        self._console.print(Text(harmless(f"{text}\n{trace}" if trace else text)))


def tell_error(meta: Mapping[str, Any], error: Exception, told: str) -> None:
    """Says why a command ends, in a sentence; where everything is shown, with the traceback.

    Args:
        meta: of the command's context.
        error: what ended it.
        told: the sentence.
    """
    console = log_console(meta.get(AS_JSON, False))
    trace = "".join(traceback.format_exception(error)) if meta.get(LEVEL) is Level.DEBUG else ""
    if isinstance(console, JsonConsole):
        console.tell("error", "potluck.cli", told, time.time(), **({"traceback": trace} if trace else {}))
    else:
        console.print(Text.assemble(harmless(trace), ("Error: ", "bold red"), harmless(told)))


@contextmanager
def logged(
    console: Console,
    level: Level | None = Level.WARNING,
    *,
    at_terminal: Level = Level.WARNING,
    times: bool | None = None,
    tracebacks: bool = False,
    quiet: str = "potluck.nobody",
) -> Iterator[None]:
    """Shows there what is logged under ``potluck``.

    Args:
        console: where.
        level: from which level on; None for what fits: at a terminal ``at_terminal``, elsewhere info. By default
            warnings.
        at_terminal: what fits at a terminal; by default warnings, beside which a live line is shown.
        times: whether a line begins with the time; by default where it goes to no terminal and rounds are told.
        tracebacks: whether errors are shown with their tracebacks; by default where everything is shown.
        quiet: the logger whose warnings alone are shown, unless everything is; by default none.
    """
    if times is None:
        times = not console.is_terminal and level is not Level.WARNING
    chosen = level or (at_terminal if console.is_terminal else Level.INFO)
    number = logging.getLevelNamesMapping()[chosen.upper()]
    handler, logger = LogLines(console, number, times, tracebacks), logging.getLogger("potluck")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(number, logging.WARNING))
    logging.getLogger(quiet).setLevel(logging.NOTSET if chosen is Level.DEBUG else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logging.getLogger(quiet).setLevel(logging.NOTSET)
