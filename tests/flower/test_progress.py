"""What a run and the command that started it say to each other through files."""

from __future__ import annotations

import logging
import re

import pytest

from potluck.flower.progress import ProgressLog
from tests.flower.lines import timeless


@pytest.fixture
def both(tmp_path):
    """The run's side, and the command's."""
    return ProgressLog(tmp_path / "progress.log"), ProgressLog(tmp_path / "progress.log")


def test_lines_are_read_once_in_order(both):
    run, command = both
    assert command.new_lines() == []
    run.report("one")
    run.report("zwei, für alle\nof two lines")
    assert timeless(command.new_lines()) == ["one", "zwei, für alle", "  of two lines"]
    assert command.new_lines() == []
    run.report("three")
    assert timeless(command.new_lines()) == ["three"]


def test_a_line_says_when_it_was_written(both):
    run, command = both
    run.report("one")
    (line,) = command.new_lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d one", line)


def test_a_line_that_is_not_written_to_its_end_is_read_later(both, tmp_path):
    _, command = both
    path = tmp_path / "progress.log"
    path.write_bytes(b"one\ntwo is hal")
    assert command.new_lines() == ["one"]
    assert command.new_lines() == []
    path.write_bytes(b"one\ntwo is half\nthree")
    assert command.new_lines() == ["two is half"]


def test_how_a_run_ends(both):
    run, command = both
    assert command.outcome() is None
    run.finish("")
    assert command.outcome() == ""
    run.finish("too few")
    assert command.outcome() == "too few"


def test_a_run_hears_that_it_is_to_stop(both):
    run, command = both
    assert not run.stop_requested()
    command.ask_to_stop()
    assert run.stop_requested()


def test_a_new_run_finds_nothing_of_the_last_one(both, tmp_path):
    run, command = both
    run.report("one")
    run.finish("failed")
    command.ask_to_stop()
    command.clear()
    assert list(tmp_path.iterdir()) == []
    assert (command.outcome(), run.stop_requested(), ProgressLog(tmp_path / "progress.log").new_lines()) == (
        None,
        False,
        [],
    )


def test_without_a_file_there_is_the_log_alone(caplog):
    alone = ProgressLog(None)
    with caplog.at_level(logging.INFO):
        alone.report("one")
    alone.finish("failed")
    alone.ask_to_stop()
    alone.clear()
    assert caplog.messages == ["one"]
    assert (alone.new_lines(), alone.outcome(), alone.stop_requested()) == ([], None, False)
