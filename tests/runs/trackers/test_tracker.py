"""What trackers are told of a run, and that one which fails ends nothing."""

from __future__ import annotations

import json
import logging

import pytest

import potluck
from potluck.runs.trackers import Tracker, tracker
from tests.runs.trackers.runs import play


class Notebook(Tracker):
    """Notes everything, and fails where it is asked to."""

    def __init__(self, fails=None, **settings):
        super().__init__(**settings)
        self.fails, self.run, self.told, self.ended = fails, None, {}, None

    def open(self, run):
        self.run = run
        if self.fails == "open":
            raise ConnectionError("nobody there")

    def write(self, round, values):
        if self.fails == round:
            raise OSError("disk full")
        self.told[round] = values

    def close(self, artifacts, error):
        if self.fails == "close":
            raise ValueError("no")
        self.ended = ({path.name for path in artifacts}, error)


def test_it_is_told_means_and_the_worst_and_what_was_spent_so_far(tmp_path):
    notes = Notebook()
    history = play(tmp_path, notes)
    rows = history.at(2).rows
    values = notes.told[2]
    assert values["accuracy"] == pytest.approx(sum(row["accuracy"] for row in rows) / 3)
    assert values["accuracy/worst"] == min(row["accuracy"] for row in rows)
    assert values["loss/worst"] == max(row["loss"] for row in rows)
    assert (values["bytes_up"], values["bytes_down"]) == history.bytes()
    assert (values["took_part"], values["dropped_out"]) == (3, 0)
    assert not any("p0" in name for name in values)
    assert notes.ended == ({"settings.json", "history.jsonl", "summary.json"}, None)
    assert (notes.run.name, notes.run.played, notes.run.folder) == ("FedAvg, seed 1", 0, tmp_path)
    assert notes.run.settings["method.aggregation"] == "whole"
    assert not any(key.startswith("participants") for key in notes.run.settings)


def test_each_participant_where_that_is_wanted():
    notes = Notebook(participants=True, name="mine")
    history = play(None, notes, rounds=1)
    assert notes.told[1]["accuracy/p1"] == next(r["accuracy"] for r in history.rows() if r["participant"] == "p1")
    assert notes.run.name == "mine"
    assert notes.ended == (set(), None)


@pytest.mark.parametrize("fails", ["open", 1, 2, "close"])
def test_one_that_fails_ends_nothing_and_says_so_once(tmp_path, caplog, fails):
    notes, other = Notebook(fails), Notebook()
    with caplog.at_level(logging.WARNING, logger="potluck"):
        assert play(tmp_path, notes, other, rounds=3).rounds == 3
    said = [record.message for record in caplog.records if "tracks this run no more" in record.message]
    assert len(said) == 1
    assert sorted(other.told) == [1, 2, 3]
    assert sorted(notes.told) == {"open": [], 1: [], 2: [1], "close": [1, 2, 3]}[fails]
    if fails != "close":  # the summary is written before
        assert "Notebook failed" in json.loads((tmp_path / "summary.json").read_text())


def test_a_mistake_in_its_settings_is_told_before_anything_is_trained(tmp_path):
    class Particular(Notebook):
        def open(self, run):
            raise potluck.SettingsError("no folder")

    with pytest.raises(potluck.SettingsError, match="no folder"):
        play(tmp_path, Particular())
    assert not (tmp_path / "history.jsonl").read_text()


def test_a_run_that_ends_early_is_told_why(tmp_path):
    def interrupt(federation, rows):
        raise KeyboardInterrupt

    notes = Notebook()
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, notes, interrupt)
    assert isinstance(notes.ended[1], KeyboardInterrupt)


def test_a_library_that_is_missing(monkeypatch):
    class Needy(Notebook):
        NEEDS = ("mlflow", "sqlalchemy")

    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with pytest.raises(potluck.PotluckError, match=r"Needy needs mlflow and sqlalchemy.*pip install '.\[mlflow\]'"):
        Needy()


def test_what_is_a_metric():
    row = {"round": 1, "participant": "a", "accuracy": 0.5, "labels": 3, "kind": "x", "late": True, "bytes_up": 1}
    empty = {"round": 1, "participant": "b", "accuracy": None, "labels": None, "auc": None, "refused": "no"}
    assert tracker.metrics_of([row, empty]) == ["accuracy", "labels"]
