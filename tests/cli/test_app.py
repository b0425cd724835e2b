"""What all commands have in common: help, the version, mistakes told plainly, bugs shown as bugs."""

from __future__ import annotations

import pytest

import potluck as library
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


def test_a_bug_is_shown_as_such(here):
    (here / "buggy.py").write_text("def load():\n    return 1 / 0\n")
    result = potluck("run", write(here), "--set", "participants.0.data=buggy:load", fails=1)
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_real_process_tells_mistakes_without_a_traceback(here):
    process = start("check", write(here), "--set", "rounds=-1")
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert said == "Error: command line, rounds: rounds = -1. Input should be greater than or equal to 0.\n"
