"""What all commands have in common: help, the version, mistakes told plainly, bugs shown as bugs."""

from __future__ import annotations

import errno
import json

import pytest

import potluck as library
from potluck.cli.app import disk_error
from tests.cli.commands import potluck, start
from tests.recipes.files import SMALL, write

COMMANDS = ("demo", "run", "check", "new", "methods", "models", "data")


def test_version():
    assert potluck("--version").stdout == f"potluck {library.__version__}\n"


def test_help_lists_the_commands():
    said = potluck("--help").stdout
    assert all(f" {command} " in said for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    said = potluck(command, "--help").stdout
    assert f"Usage: potluck {command}" in said
    assert max(len(line) for line in said.splitlines()) <= 80


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_mistake_is_told_on_standard_error(here, command):
    result = potluck(command, write(here, SMALL.replace("alpha = 0.4", "alhpa = 0.4")), fails=2)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert "line 6, method.alhpa: CoFED has no setting 'alhpa'. Did you mean 'alpha'? Known: alpha, " in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_brackets_are_no_markup(here):
    assert "[bold]" in potluck("run", write(here), "--set", "engine=[bold]", fails=2).stderr


def test_an_error_in_ones_own_code_is_told_with_its_line(here):
    (here / "buggy.py").write_text("def load():\n    return 1 / 0\n")
    result = potluck("run", write(here), "--set", "participants.0.data=buggy:load", fails=1)
    assert result.stderr == "Error: buggy.py, line 2, in load: ZeroDivisionError: division by zero\n"
    shown = potluck("run", write(here), "--set", "participants.0.data=buggy:load", "--log-level", "debug", fails=1)
    assert "Traceback (most recent call last)" in shown.stderr


def test_code_that_cannot_be_read_is_told_with_its_line(here):
    (here / "buggy.py").write_text("x = 1\ndef load(:\n")
    said = potluck("run", write(here), "--set", "participants.0.data=buggy:load", "--log-json", fails=2).stderr
    told = json.loads(said)
    assert told["level"] == "error"
    assert told["message"].endswith("'buggy:load' cannot be imported: buggy.py, line 2: SyntaxError: invalid syntax.")


def test_a_bug_is_shown_as_such(here, monkeypatch):
    monkeypatch.setattr("potluck.recipes.recipe.Recipe.federation", None)
    result = potluck("run", write(here), fails=1)
    assert isinstance(result.exception, TypeError)
    assert "Error" not in result.stderr


def test_a_full_disk_is_told_in_a_sentence():
    full = OSError(errno.ENOSPC, "No space left on device", "runs/a/history.jsonl")
    assert disk_error(full) == "No space left on device: runs/a/history.jsonl."
    assert disk_error(OSError(errno.ECONNRESET, "reset")) is None
    assert disk_error(ValueError("x")) is None


def test_a_real_process_tells_mistakes_without_a_traceback(here):
    process = start("check", write(here), "--set", "rounds=-1")
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert said == "Error: command line, rounds: rounds = -1. Input should be greater than or equal to 0.\n"
