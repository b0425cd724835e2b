"""What a person sees while waiting, and what a file does not get."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from potluck.cli.console import LiveLine, messages, progress, waiting, watch_rounds


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


def test_what_comes_from_elsewhere_cannot_command_a_terminal(capsys):
    messages().print("name\x1b[2J\x07 \u202eevil é\nnext", markup=False)
    assert capsys.readouterr().err == "name\\x1b[2J\\x07 \\u202eevil é\nnext\n"


def test_a_live_line_is_below_what_is_printed_and_away_while_somebody_is_asked():
    where = console(True)
    with LiveLine(where) as line:
        line.say("round 1 of 9\x1b[2J")
        where.print("printed")
        with line.hidden():
            where.file.truncate(0)
            where.file.write("asked")
            line.say("round 2 of 9")
            assert "round 2" not in where.file.getvalue()
    assert "round 2 of 9" in where.file.getvalue()
    assert "[2J" not in where.file.getvalue()


def test_a_live_line_is_for_terminals_alone():
    where = console(False)
    with LiveLine(where) as line, line.hidden():
        line.say("round 1 of 9")
    assert where.file.getvalue() == ""


def test_the_rounds_of_several_runs_are_on_one_bar():
    where = console(True)
    with progress(where) as bar:
        watch = watch_rounds(bar)
        watch(4, 20, "")
        watch(5, 20, "FedAvg, seed 0")
        bar.refresh()
    assert "rounds of all runs; now FedAvg, seed 0" in where.file.getvalue()
    assert "5/20" in where.file.getvalue()
