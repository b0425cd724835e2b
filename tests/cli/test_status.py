"""`potluck status`: what people and programs read of how a federation stands."""

from __future__ import annotations

import json
import time

import pytest

from potluck.flower.monitor import Monitor
from potluck.flower.status import STATUS_FILE, StatusBoard
from tests.cli.commands import potluck
from tests.flower.statuses import standing


@pytest.fixture
def board(tmp_path):
    """Of a run in which ann works, and ben is away."""
    found = StatusBoard(tmp_path / "flower" / STATUS_FILE, standing(study="heart", metric="accuracy", score=0.9))
    status = found.status
    status.round, status.score_of, status.bytes_up, status.bytes_down, status.seconds_left = 2, 1, 1500, 10, 3700.0
    found.participant("ann", "working")
    found.participant("ben", "away")
    found.status.participants[0].since = time.time() - 125
    found.status.participants[0].round = 2
    found.run("playing")
    return found


def test_people_read_who_does_what_since_when(board, tmp_path):
    output = potluck("status", tmp_path).output
    assert "heart: FedAvg, 2 of 3 rounds are over; playing round 3 since " in output
    assert "Mean accuracy 90.00% of 1 after round 2." in output
    assert "Received 1.5 kB, sent 10 B; about 1 h 1 min left." in output
    ann, ben = (line.split() for line in output.splitlines()[-2:])
    assert ann[:6] == ["ann", "working", "2", "min", "5", "s"]
    assert ann[6] == "2"
    assert ben[:2] == ["ben", "away"]


def test_programs_read_all_of_it(board, tmp_path):
    found = json.loads(potluck("status", tmp_path, "--json").output)
    assert found == [board.status.model_dump(mode="json")]


def test_a_monitor_is_asked_over_http(board, tmp_path):
    with Monitor("127.0.0.1:0", lambda: [tmp_path / "flower" / STATUS_FILE]) as monitor:
        assert "heart: FedAvg" in potluck("status", f"127.0.0.1:{monitor.port}").output


def test_a_status_that_nobody_renews_is_told_to_be_old(board, tmp_path):
    path = tmp_path / "flower" / STATUS_FILE
    path.write_text(path.read_text().replace(f'"updated": {board.status.updated}', f'"updated": {time.time() - 300}'))
    assert "5 min old: the server does not run, or hangs" in potluck("status", tmp_path).output
    board.run("failed", "a bug")
    output = potluck("status", tmp_path).output
    assert "Why: a bug" in output
    assert "old" not in output


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (".", "holds no federation that was served"),
        ("nowhere", "There is no folder nowhere; expected a run folder, or HOST:PORT"),
        ("127.0.0.1:1", "No monitor answers at 127.0.0.1:1"),
    ],
)
def test_where_nothing_is_that_is_said(where, why, here):
    assert why in " ".join(potluck("status", where, fails=2).output.split())
