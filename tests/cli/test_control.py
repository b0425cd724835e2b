"""`potluck control`: what it asks of a run, and of which runs it cannot."""

from __future__ import annotations

import pytest
from filelock import FileLock

from potluck.flower.control import CONTROL_FILE, Control
from tests.cli.commands import potluck


@pytest.fixture
def served(tmp_path):
    """A run folder that is being served."""
    (tmp_path / "flower").mkdir()
    with FileLock(tmp_path / "flower" / ".lock"):
        yield tmp_path


@pytest.mark.parametrize(
    ("wish", "told"), [("pause", "no other begins"), ("go", "It goes on"), ("stop", "all who take part are told")]
)
def test_what_is_wished_is_told_to_the_run(wish, told, served):
    output = potluck("control", served, wish).output
    assert told in output
    assert "potluck status" in output
    assert Control(served / "flower" / CONTROL_FILE).wish() == wish


def test_another_word_is_no_wish(served):
    assert "expected go, pause, stop" in potluck("control", served, "halt", fails=2).output
    assert not (served / "flower" / CONTROL_FILE).exists()


def test_a_folder_that_nobody_serves_cannot_be_asked(tmp_path):
    assert "is not being served" in potluck("control", tmp_path, "stop", fails=2).output
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / ".lock").touch()
    assert "is not being served" in potluck("control", tmp_path, "stop", fails=2).output
