"""A run ends when validation data show no progress; the best round by them is kept; breaks change nothing."""

from __future__ import annotations

import json

import pytest

import potluck
from potluck.runs import EarlyStopping
from potluck.runs.early_stopping import BEST
from potluck.runs.validation_log import VALIDATION
from tests.runs.validated import federation
from tests.tables import agree


class Scripted(EarlyStopping):
    """Sees these values one after the other, whatever the models answer."""

    def __init__(self, values, **settings):
        super().__init__(**settings)
        self.script = values

    def mean(self, scores):
        assert set(scores) == {"p0", "p1"}
        return self.script[len(self.values)]


def told(folder):
    return json.loads((folder / "summary.json").read_text())["best_by_validation"]


def test_it_ends_when_nothing_grew_for_so_many_rounds_and_the_best_is_a_run_of_its_own(tmp_path):
    stopping = Scripted([0.5, 0.6, 0.6, 0.55, 0.9, 0.9], patience=2)
    played = federation()
    history = played.run(10, run_dir=tmp_path, callbacks=[stopping])
    assert (history.rounds, stopping.best) == (4, 2)
    assert played.stopped == "accuracy on validation data has not grown since round 2"
    found = told(tmp_path)
    assert (found["round"], found["metric"], found["validation"], found["folder"]) == (2, "accuracy", 0.6, BEST)
    assert found["test"] == history.at(2).score
    best = federation()
    best.run(2, run_dir=tmp_path / BEST, resume=True)
    agree(best.history.rows(), [row for row in history.rows() if row["round"] <= 2], 0)
    agree(best.run(2).rows(), history.rows(), 0)
    assert sorted(path.name for path in tmp_path.iterdir() if "best" in path.name) == [BEST]


def test_of_a_loss_less_is_better_and_small_steps_are_no_progress(tmp_path):
    stopping = Scripted([0.5, 0.4, 0.39, 0.3], patience=1, metric="loss", min_delta=0.05)
    assert federation().run(10, run_dir=tmp_path, callbacks=[stopping]).rounds == 3
    assert told(tmp_path)["round"] == 2


def test_the_reason_says_which_way_a_metric_should_have_moved():
    played = federation()
    played.run(5, callbacks=[Scripted([0.5, 0.5], patience=1, metric="loss")])
    assert played.stopped == "loss on validation data has not fallen since round 1"


def test_without_patience_it_only_keeps_the_best(tmp_path):
    played = federation()
    history = played.run(4, run_dir=tmp_path, callbacks=[Scripted([0.9, 0.5, 0.4, 0.3], patience=None)])
    assert (history.rounds, played.stopped) == (4, None)
    assert told(tmp_path)["round"] == 1
    assert (tmp_path / BEST).is_dir()


def test_the_best_is_kept_only_where_it_is_asked_for_and_there_is_a_folder(tmp_path):
    federation().run(2, run_dir=tmp_path / "a", callbacks=[Scripted([0.5, 0.6], keep_best=False)])
    assert "folder" not in told(tmp_path / "a")
    assert not (tmp_path / "a" / BEST).exists()
    stopping = Scripted([0.5, 0.6])
    federation().run(2, callbacks=[stopping])
    assert "folder" not in stopping.summary()["best_by_validation"]


def test_what_a_cut_off_copy_left_behind_is_no_obstacle(tmp_path):
    for name in (f".{BEST}.unfinished", f".{BEST}.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "left over").write_text("x")
    federation().run(2, run_dir=tmp_path, callbacks=[Scripted([0.5, 0.6])])
    assert sorted(path.name for path in tmp_path.iterdir() if BEST in path.name) == [BEST]
    assert not (tmp_path / BEST / "left over").exists()


def test_before_the_first_round_there_is_no_best():
    stopping = EarlyStopping()
    assert (stopping.best, stopping.summary()) == (None, {})
    assert (stopping.patience, stopping.min_delta, stopping.keep_best) == (5, 0.0, True)


def test_a_run_that_is_cut_off_ends_in_the_same_round_as_an_unbroken_one(tmp_path):
    values = [0.5, 0.6, 0.55, 0.5, 0.9]

    class CutOff(Scripted):
        """Is ended after a round was stored, before it was looked at."""

        def round(self, federation, rows):
            if federation.history.rounds == 3:
                raise InterruptedError
            super().round(federation, rows)

    with pytest.raises(InterruptedError):
        federation().run(10, run_dir=tmp_path, callbacks=[CutOff(values, patience=2)])
    with (tmp_path / VALIDATION).open("a") as file:
        file.write('{"round": 3, "val')  # the line that was being written
    resumed = federation()
    resumed.run(10, run_dir=tmp_path, resume=True, callbacks=[Scripted(values, patience=2)])
    assert (resumed.history.rounds, told(tmp_path)["round"]) == (4, 2)
    assert [json.loads(line)["round"] for line in (tmp_path / VALIDATION).read_text().splitlines()] == [1, 2, 3, 4]
    again = federation()
    again.run(10, run_dir=tmp_path, resume=True, callbacks=[Scripted(values, patience=2)])
    assert (again.history.rounds, again.stopped) == (4, resumed.stopped)


@pytest.mark.parametrize(
    "wrong",
    [
        {"patience": 0},
        {"patience": 1.5},
        {"min_delta": -1},
        {"min_delta": "x"},
        {"min_delta": True},
        {"min_delta": float("inf")},
    ],
)
def test_wrong_settings(wrong):
    with pytest.raises(potluck.SettingsError, match=next(iter(wrong))):
        EarlyStopping(**wrong)
