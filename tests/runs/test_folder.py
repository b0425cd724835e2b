"""A run's folder: what is written is on the disk before it counts, and nobody else writes there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from potluck.core.errors import SettingsError
from potluck.core.history import History
from potluck.runs.folder import RunFolder

FINGERPRINT = {"seed": "1"}


def row(round, name="a", accuracy=0.5):
    sent = {"bytes_up": 10, "bytes_down": 1, "seconds": 0.25}
    return {"round": round, "participant": name, "accuracy": accuracy, "loss": 1.0, **sent}


def read(folder, name):
    return json.loads((folder.path / name).read_text())


@pytest.fixture
def begun(tmp_path):
    with RunFolder(tmp_path / "deep" / "run", resume=False) as folder:
        assert folder.begin({"seed": 1}, FINGERPRINT) is None
        yield folder


def test_a_new_folder_holds_settings_then_rows_then_a_summary(begun):
    settings = read(begun, "settings.json")
    when = {name: settings.pop(name) for name in ("started", "machine", "versions")}
    assert settings == {"seed": 1}
    rows = [row(1), row(1, "b", 0.25), row(2), row(2, "b", 1.0)]
    begun.append(rows[:2])
    begun.append(rows[2:])
    begun.finish(History(rows), {"decisions": {"memory": 3}, "incidents": []})
    assert [json.loads(line) for line in (begun.path / "history.jsonl").read_text().splitlines()] == rows
    summary = read(begun, "summary.json")
    assert {name: summary.pop(name) for name in when} == when
    assert summary.pop("ended") >= when["started"]
    assert 0 <= summary.pop("wall_seconds") < 60
    assert summary == {
        "headline": "accuracy",
        "rounds": 2,
        "accuracy": 0.75,
        "worst": 0.5,
        "participants": {"a": 0.5, "b": 1.0},
        "bytes_up": 40,
        "bytes_down": 4,
        "seconds": 1.0,
        "best_chosen_on_test": {"round": 2, "accuracy": 0.75},
        "decisions": {"memory": 3},
    }
    assert not list(begun.path.glob(".*unfinished"))


def test_settings_that_json_does_not_know_are_written_as_text(tmp_path):
    with RunFolder(tmp_path, resume=False) as folder:
        folder.begin({"path": Path("x")}, FINGERPRINT)
        assert read(folder, "settings.json")["path"] == "x"


@pytest.fixture
def synced(monkeypatch):
    """The names of the files that are brought to the disk, each with its bytes at that moment."""
    found = []
    fsync = os.fsync

    def note(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        found.append((os.path.basename(path), os.fstat(descriptor).st_size))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return found


def test_what_is_dropped_is_dropped_on_the_disk(tmp_path, synced):
    (tmp_path / "history.jsonl").write_text("left over\n")
    with RunFolder(tmp_path, resume=True) as folder:
        folder.begin({}, FINGERPRINT)
    assert synced == [("history.jsonl", 0), (".settings.json.unfinished", (tmp_path / "settings.json").stat().st_size)]


def test_what_is_written_is_on_the_disk_before_it_counts(begun, synced):
    synced.clear()
    begun.append([row(1)])
    assert synced == [("history.jsonl", (begun.path / "history.jsonl").stat().st_size)]
    begun.finish(History([row(1)]), {})
    assert synced[1:] == [(".summary.json.unfinished", (begun.path / "summary.json").stat().st_size)]


def test_a_row_with_a_number_that_json_does_not_have_is_not_written(begun):
    with pytest.raises(ValueError, match="JSON compliant"):
        begun.append([row(1, accuracy=float("nan"))])


def test_a_run_goes_on_from_its_checkpoint(begun):
    for number in (1, 2):
        begun.append([row(number)])
    begun.save(2, {"x": [1, 2]}, FINGERPRINT)
    begun.append([row(3)])
    begun.__exit__()
    with RunFolder(begun.path, resume=True) as again:
        found = again.begin({"seed": 1, "more": True}, FINGERPRINT)
        assert found is not None
        state, history = found
        assert state == {"x": [1, 2]}
        assert history.rows() == [row(1), row(2)]
        settings = read(again, "settings.json")
        assert (settings["seed"], settings["more"], len(settings["resumed"])) == (1, True, 1)
        again.append([row(3, accuracy=1.0)])
        lines = [json.loads(line) for line in (begun.path / "history.jsonl").read_text().splitlines()]
        assert lines == [row(1), row(2), row(3, accuracy=1.0)]


def test_a_folder_that_holds_a_run_is_only_gone_on_with(begun):
    with pytest.raises(SettingsError, match=r"already holds a run\. Resume it, or choose another folder"):
        RunFolder(begun.path, resume=False)
    RunFolder(begun.path, resume=True)


def test_a_file_is_no_folder(begun):
    with pytest.raises(SettingsError, match=r"settings\.json is a file; expected a folder for the run"):
        RunFolder(begun.path / "settings.json", resume=True)


def test_one_run_at_a_time_writes_to_a_folder(begun):
    with pytest.raises(SettingsError, match=r"is being written by another run\. Wait for it, or stop it"):
        RunFolder(begun.path, resume=True).__enter__()
    begun.__exit__()
    with RunFolder(begun.path, resume=True):
        pass


def test_a_summary_names_the_models_that_are_reported(begun):
    rows = [row(1), {**row(1), "model": "global", "accuracy": 0.75}]
    begun.append(rows)
    begun.finish(History(rows), {})
    assert read(begun, "summary.json")["models"] == [{"participant": "a", "model": "global", "accuracy": 0.75}]
