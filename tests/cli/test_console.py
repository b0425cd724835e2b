"""What a person sees while waiting, and what a file does not get."""

from __future__ import annotations

import io
import logging

import pytest
from rich.console import Console

from potluck.cli.console import Warnings, messages, progress, waiting


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def test_messages_go_to_standard_error(capsys):
    messages().print("hello")
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals_alone(terminal):
    where = console(terminal)
    with progress(where) as bar:
        bar.advance(bar.add_task("rounds", total=3))
        bar.refresh()
    with waiting("loading", where):
        pass
    said = where.file.getvalue()
    assert bool(said) == terminal
    assert ("rounds" in said, "1/3" in said, "loading" in said) == (terminal,) * 3


def test_warnings_are_shown_as_they_are_and_no_chatter():
    where = console(False)
    log = logging.getLogger("tests.cli.console")
    log.addHandler(handler := Warnings(where))
    try:
        log.warning("p0 has [bold]%d[/bold] rows", 3)
        log.info("nothing of note")
    finally:
        log.removeHandler(handler)
    assert where.file.getvalue() == "p0 has [bold]3[/bold] rows\n"


def test_what_comes_from_elsewhere_cannot_command_a_terminal(capsys):
    messages().print("name\x1b[2J\x07 \u202eevil é\nnext", markup=False)
    assert capsys.readouterr().err == "name\\x1b[2J\\x07 \\u202eevil é\nnext\n"
    Warnings(messages()).emit(logging.LogRecord("x", logging.WARNING, "", 0, "p0\x1b]0;title\x07", None, None))
    assert "\x1b" not in capsys.readouterr().err
