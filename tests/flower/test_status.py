"""How a federation stands, in a file: written when something changes, but not all the time."""

from __future__ import annotations

import time

import pytest

from potluck.core.errors import SettingsError
from potluck.flower import status
from potluck.flower.status import Status, StatusBoard, read_status
from tests.flower.statuses import standing


@pytest.fixture
def board(tmp_path):
    return StatusBoard(tmp_path / "flower" / "status.json", standing())


def test_what_is_written_is_read(board, tmp_path):
    before = time.time()
    board.participant("ben", "declined", "no")
    board.run("playing")
    found = read_status(tmp_path / "flower" / "status.json")
    assert found == board.status
    assert found.state == "playing"
    assert [(each.state, each.why) for each in found.participants] == [("expected", ""), ("declined", "no")]
    assert before <= found.participants[1].since <= found.since <= found.updated <= time.time()


def test_the_time_of_a_state_is_that_of_its_beginning(board):
    board.participant("ann", "here")
    since = board.status.participants[0].since
    board.participant("ann", "here")
    assert board.status.participants[0].since == since
    board.participant("ann", "working")
    assert board.status.participants[0].since > since


def test_it_is_written_when_something_changes_but_not_all_the_time(board, monkeypatch):
    written, clock = [], [100.0]
    monkeypatch.setattr(status.time, "monotonic", lambda: clock[0])
    write = board.write
    monkeypatch.setattr(board, "write", lambda: (written.append(clock[0]), write()))
    for moment, state in [(100.0, "here"), (100.2, "working"), (100.4, "here"), (100.6, "here"), (105.0, "here")]:
        clock[0] = moment
        board.participant("ann", state)
        board.refresh()
    assert written == [100.0, 100.6]
    clock[0] = 111.0
    board.refresh()
    assert written == [100.0, 100.6, 111.0], "a sign of life"


@pytest.mark.parametrize("text", [None, "", "{", '{"state": "dancing"}'])
def test_a_file_that_says_nothing_is_an_error(text, tmp_path):
    path = tmp_path / "status.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match="does not say how the federation stands"):
        read_status(path)


def test_what_a_newer_version_says_besides_is_passed_over():
    assert Status.model_validate({**standing().model_dump(), "mood": "good"}) == standing()
