"""What a command says while it works: at a terminal, in a file, as JSON."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest
from rich.console import Console

from potluck.cli.logs import JsonConsole, Level, LogLines, logged, tell_error

LOG = logging.getLogger("potluck.tests.logs")


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, highlight=False, soft_wrap=True)


def say_all():
    LOG.debug("a detail")
    LOG.info("round 1 of 9")
    LOG.warning("p0 has [bold]%d[/bold] rows", 3)


@pytest.mark.parametrize(
    ("terminal", "level", "said"),
    [
        (True, None, ["p0"]),
        (False, None, ["round", "p0"]),
        (True, Level.INFO, ["round", "p0"]),
        (False, Level.DEBUG, ["a detail", "round", "p0"]),
        (False, Level.ERROR, []),
        (False, Level.WARNING, ["p0"]),
    ],
)
def test_how_much_is_said(terminal, level, said):
    where = console(terminal)
    with logged(where, level):
        say_all()
    say_all()
    assert [what for what in ("a detail", "round", "p0") if what in where.file.getvalue()] == said


def test_without_a_terminal_lines_have_times():
    where = console(False)
    with logged(where, None):
        say_all()
    for line in where.file.getvalue().splitlines():
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (round 1 of 9|p0 has \[bold\]3\[/bold\] rows)$", line)


def test_at_a_terminal_they_have_none():
    where = console(True)
    with logged(where, None, at_terminal=Level.INFO):
        LOG.info("round 1")
    assert where.file.getvalue() == "round 1\n"


def test_as_json_each_line_is_an_object_with_what_is_known():
    where = JsonConsole(file=io.StringIO())
    with logged(where, None):
        LOG.info("round 1\nof 9", extra={"facts": {"round": 1, "rounds": 9}})
        where.print("Kept in runs", markup=False)
    first, second = [json.loads(line) for line in where.file.getvalue().splitlines()]
    assert re.match(r"\d{4}-.*T.*\+00:00", first.pop("time"))
    message = {"message": "round 1\nof 9", "round": 1, "rounds": 9}
    assert first == {"level": "info", "logger": "potluck.tests.logs", **message}
    assert second["message"] == "Kept in runs"


def test_tracebacks_are_shown_where_they_are_wanted():
    def shown(**settings):
        where = console(False)
        with logged(where, settings.pop("level", None), **settings):
            try:
                _ = 1 / 0
            except ZeroDivisionError:
                LOG.exception("could not answer")
        return "Traceback" in where.file.getvalue()

    assert not shown()
    assert shown(tracebacks=True)
    assert shown(level=Level.DEBUG)


def test_one_logger_may_be_quiet():
    where = console(False)
    with logged(where, None, quiet=LOG.name):
        say_all()
    assert "round 1" not in where.file.getvalue()
    assert "p0" in where.file.getvalue()
    assert LOG.level == logging.NOTSET


def test_what_is_logged_cannot_command_a_terminal():
    where = console(True)
    LogLines(where, logging.INFO, times=False).emit(
        logging.LogRecord("x", logging.WARNING, "", 0, "p0\x1b]0;title\x07", None, None)
    )
    assert "\x1b]" not in where.file.getvalue()


@pytest.mark.parametrize("level", [None, Level.DEBUG])
def test_an_error_is_a_sentence_and_a_traceback_where_everything_is_shown(level, capsys):
    meta = {"potluck.log_level": level}
    tell_error(meta, ValueError("no"), "mine.py, line 3: no")
    said = capsys.readouterr().err
    assert said.endswith("Error: mine.py, line 3: no\n")
    assert ("ValueError" in said) == (level is not None)
    tell_error(meta | {"potluck.log_json": True}, ValueError("no"), "no")
    told = json.loads(capsys.readouterr().err)
    assert (told["level"], told["message"]) == ("error", "no")
    assert ("traceback" in told) == (level is not None)
