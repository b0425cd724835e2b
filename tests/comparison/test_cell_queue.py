"""One cell that fails stops no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from potluck.comparison.cell_queue import attempt, each_reason, play_all
from potluck.comparison.cells import plan_cells
from potluck.core.errors import DataError
from tests.recipes.files import write


def cells(here):
    return plan_cells(write(here), ["CoFED"], [0, 1], Path("out"))


@pytest.fixture
def played(monkeypatch):
    """Plays nothing: Local with seed 0 has a bug, CoFED with seed 1 has bad data."""
    titles = []

    def play(cell, told):
        titles.append(cell.title)
        if cell.title == "Local, seed 0":
            raise KeyError("nobody")
        if cell.title == "CoFED, seed 1":
            raise DataError("no samples.")
        told(2)

    monkeypatch.setattr("potluck.comparison.cell_queue.play", play)
    return titles


def test_the_reasons_of_those_that_fail(here, played):
    told = []
    found = play_all(cells(here), 1, lambda cell, number: told.append((cell.title, number)))
    assert played == ["CoFED, seed 0", "Local, seed 0", "CoFED, seed 1", "Local, seed 1"]
    assert list(found) == ["Local, seed 0", "CoFED, seed 1"]
    assert found["CoFED, seed 1"] == "no samples."
    assert told == [("CoFED, seed 0", 2), ("Local, seed 1", 2)]


def test_a_bug_leaves_its_traceback_until_the_cell_is_played(here, played, monkeypatch):
    broken = cells(here)[1]
    assert attempt(broken, print) == "KeyError: 'nobody' (where it happened is in out/Local/seed-0/error.txt)"
    assert "in play" in (broken.folder / "error.txt").read_text()
    monkeypatch.setattr("potluck.comparison.cell_queue.play", lambda cell, told: None)
    assert attempt(broken, print) is None
    assert not (broken.folder / "error.txt").exists()


def test_a_reason_is_told_once_for_all_whom_it_concerns():
    told = each_reason({"A, seed 0": "no file.", "B, seed 0": "a bug.", "A, seed 1": "no file."})
    assert told == ["A, seed 0; A, seed 1: no file.", "B, seed 0: a bug."]
