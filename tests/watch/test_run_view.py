"""How a run stands, by its folder: played by this process, by another, by one that is gone, or over."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from potluck.core.errors import DataError
from potluck.core.processes import started_at
from potluck.methods import Local
from potluck.watch import run_view
from potluck.watch.run_view import RunWatcher, gone, read_object
from tests.resumable import resumable
from tests.watch.folders import row, write_rows, write_run


def test_a_run_that_is_being_played(tmp_path):
    doing = {"working": 2, "waiting": 1}
    write_run(
        tmp_path, row(1, "a", 0.5), row(1, "b", 0.9), row(2, "a", 0.7, refused="late"),
        phase="round", round=3, doing=doing, working=["a"], out={"c": "gone"},
    )  # fmt: skip
    view = RunWatcher(tmp_path).look()
    assert (view.title, view.state, view.round, view.rounds) == ("FD, seed 3", "playing", 2, 10)
    assert (view.metric, view.share, view.score, view.worst) == ("accuracy", True, pytest.approx(0.8), 0.7)
    assert view.points == [(1, pytest.approx(0.7)), (2, pytest.approx(0.8))]
    assert (view.sent, view.received, view.dropped, view.drops[0].name) == (30, 3, 1, "a")
    assert (view.phase, view.doing, view.working, view.out) == ("round", doing, ["a"], {"c": "gone"})
    assert [(p.name, p.score, p.sent, p.doing) for p in view.people] == [("a", 0.7, 20, "working"), ("b", 0.9, 10, "")]
    assert json.loads(json.dumps(view.to_json()))["over"] is False


def test_the_time_left_is_that_of_the_rounds_so_far(tmp_path):
    """Two rounds took 60 seconds; eight are left. Of the third 10 seconds have passed."""
    write_run(tmp_path, row(1, "a"), row(2, "a"), ago=70.0)
    live = json.loads((tmp_path / "live.json").read_text())
    (tmp_path / "live.json").write_text(json.dumps({**live, "round": 3, "since": live["began"] + 60}))
    assert RunWatcher(tmp_path).look().left == pytest.approx(8 * 30 - 10, abs=1)
    (tmp_path / "live.json").write_text(json.dumps({**live, "played": 2}))
    assert RunWatcher(tmp_path).look().left is None, "none of them was played by this process"


def test_less_is_better_of_a_loss(tmp_path):
    rows = [{**row(1, name), "loss": loss} for name, loss in (("a", 2.0), ("b", 1.0), ("c", None))]
    for each in rows:
        del each["accuracy"]
    write_run(tmp_path, *rows)
    view = RunWatcher(tmp_path).look()
    assert (view.metric, view.less, view.worst, view.share) == ("loss", True, 2.0, False)
    assert [person.name for person in view.people] == ["a", "b", "c"]


def test_a_process_that_is_gone_is_no_run_that_goes_on(tmp_path):
    write_run(tmp_path, row(1, "a"))
    watcher = RunWatcher(tmp_path)
    live = json.loads((tmp_path / "live.json").read_text())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / "live.json").write_text(json.dumps({**live, "pid": ended.pid}))
    assert (watcher.look().state, watcher.look().over) == ("lost", True)
    (tmp_path / "live.json").write_text(json.dumps({**live, "started": "1"}))
    assert watcher.look().state == "lost", "another process has its number"
    (tmp_path / "live.json").write_text(json.dumps({**live, "pid": ended.pid, "host": "elsewhere"}))
    assert watcher.look().state == "playing", "of another machine's nobody can say"
    assert not gone({"pid": 1, "started": started_at(1), "host": live["host"]}), "another user's"


@pytest.mark.parametrize(("state", "why"), [("ended", "enough"), ("interrupted", ""), ("failed", "OSError: full")])
def test_a_run_that_is_over(tmp_path, state, why):
    write_run(tmp_path, row(1, "a"), state=state, why=why, working=["a"], doing={"working": 1})
    view = RunWatcher(tmp_path).look()
    assert (view.state, view.why, view.over, view.left, view.working, view.people[0].doing) == (
        state, why, True, None, [], "",
    )  # fmt: skip


def test_a_real_run_while_it_goes_on_and_afterwards(tmp_path):
    watcher, seen = RunWatcher(tmp_path), []
    history = resumable(Local()).run(3, run_dir=tmp_path, callbacks=[lambda *_: seen.append(watcher.look())])
    assert [(view.state, view.round) for view in seen] == [("playing", 1), ("playing", 2), ("playing", 3)]
    view = watcher.look()
    assert (view.state, view.rounds, view.title) == ("ended", 3, "Local, seed 1")
    assert (view.score, view.worst) == (pytest.approx(history.final.score), history.final.worst)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    RunWatcher(tmp_path).look()
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before, "it is only read"
    (tmp_path / "live.json").unlink()
    assert RunWatcher(tmp_path).look().state == "ended", "a run of before there was such a file"


def test_a_served_federation_that_waits_tells_what_the_server_says(tmp_path):
    (tmp_path / "flower").mkdir()
    lines = [f"line {number}" for number in range(9)]
    (tmp_path / "flower/progress.log").write_text("\n".join(lines) + "\n")
    view = RunWatcher(tmp_path).look()
    assert (view.state, view.news, view.round) == ("waiting", lines[-5:], 0)


def test_what_is_looked_at_on_validation_data(tmp_path):
    write_run(tmp_path, row(1, "a"))
    (tmp_path / "validation.jsonl").write_text('{"round": 1, "metric": "accuracy", "value": 0.25, "test": 0.5}\n{"rou')
    assert RunWatcher(tmp_path).look().validation == [(1, 0.25)]


def test_of_many_rounds_and_participants_some_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(run_view, "POINTS", 10)
    monkeypatch.setattr(run_view, "PEOPLE", 3)
    write_run(tmp_path, *(row(1, f"p{n}", 0.1 * n) for n in range(5)))
    write_rows(tmp_path, *(row(n, "p0", 0.5) for n in range(2, 96)))
    view = RunWatcher(tmp_path).look()
    assert (len(view.points), view.points[-1][0]) == (10, 95)
    assert [person.name for person in view.people] == ["p1", "p2", "p3"]


def test_a_file_that_is_somebody_elses(tmp_path, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    assert read_object(tmp_path / "none.json") == {}
    (tmp_path / "half.json").write_text('{"a": ')
    assert read_object(tmp_path / "half.json") == {}
    monkeypatch.setattr("pathlib.Path.read_text", closed)
    with pytest.raises(DataError, match="Ask its owner"):
        read_object(tmp_path / "live.json")
