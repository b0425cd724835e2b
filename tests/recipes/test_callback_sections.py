"""Trackers and early stopping in a file: found by name, checked with the file, built as in Python."""

from __future__ import annotations

import json

import pytest

from potluck.core.errors import SettingsError
from potluck.recipes import read
from potluck.runs import EarlyStopping
from potluck.runs.trackers import CsvFile, JsonLines, TensorBoard, tracker
from tests.recipes.files import NETS, here, read_text, write

__all__ = ["here"]

TOLD = """
[early_stopping]
patience = "never"
metric = "loss"
min_delta = 0.01

[track]
csv = { participants = true }
jsonl = true
tensorboard = false
"""


def test_a_file_says_what_python_says(here):
    stopping, table, lines = read_text(here, NETS + TOLD).callbacks()
    assert isinstance(stopping, EarlyStopping)
    assert (stopping.patience, stopping.metric, stopping.min_delta, stopping.keep_best) == (None, "loss", 0.01, True)
    assert isinstance(table, CsvFile)
    assert table.participants
    assert isinstance(lines, JsonLines)
    assert read_text(here, NETS).callbacks() == []


def test_each_run_has_trackers_of_its_own(here):
    recipe = read_text(here, NETS + TOLD)
    assert recipe.callbacks()[1] is not recipe.callbacks()[1]


def test_trackers_are_no_setting_of_the_experiment(here):
    recipe = read_text(here, NETS + TOLD)
    assert "track" not in recipe.model_dump(mode="json")
    assert recipe.model_dump(mode="json")["early_stopping"]["patience"] == "never"


def test_changes_reach_them(here):
    changes = ["track.tensorboard=true", "early_stopping.patience=3"]
    stopping, *_, board = read(write(here, NETS + TOLD), changes).callbacks()
    assert stopping.patience == 3
    assert isinstance(board, TensorBoard)


def test_one_of_ones_own(here):
    (here / "note.py").write_text(
        "from potluck.runs.trackers import Tracker\n\nclass Note(Tracker):\n"
        "    def __init__(self, path: str):\n        super().__init__()\n        self.path = path\n"
        "    def open(self, run): ...\n    def write(self, round, values): open(self.path, 'a').write(f'{round} ')\n"
        "    def close(self, artifacts, error): ...\n"
    )
    recipe = read(write(here, NETS + '[track]\n"note:Note" = { path = "told.txt" }\n'))
    recipe.federation().run(2, callbacks=recipe.callbacks())
    assert (here / "told.txt").read_text() == "1 2 "


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[track]\ntensorbord = true",
            "track.tensorbord: There is no tracker 'tensorbord'. Did you mean 'tensorboard'",
        ),
        ("[track]\ncsv = { pth = 'x' }", "track.csv.pth: 'csv' has no setting 'pth'. Did you mean 'path'"),
        ("[track]\nwandb = { mode = 'sometimes' }", "track.wandb.mode"),
        ("[track]\ncsv = 3", "track.csv"),
        ("[track]\n'mine:build' = true", "'mine:build' is no tracker; expected a subclass"),
        ("track = 'csv'", "expected a table, such as tensorboard = true"),
        ("[early_stopping]\npatience = 0", "early_stopping.patience"),
        ("[early_stopping]\npatience = 'ever'", "early_stopping.patience"),
        ("[early_stopping]\npatiens = 2", "early_stopping has no setting 'patiens'. Did you mean 'patience'"),
    ],
)
def test_mistakes_are_told_with_their_place(here, text, says):
    text = f"{text}\n{NETS}" if text.startswith("track") else f"{NETS}\n{text}\n"
    with pytest.raises(SettingsError) as caught:
        read_text(here, text)
    assert says in str(caught.value)
    assert "small.toml, line" in str(caught.value)


def test_a_library_that_is_missing_is_told_with_the_file(here, monkeypatch):
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"track.mlflow: MLflow needs mlflow"):
        read_text(here, NETS + "[track]\nmlflow = true\n")


def test_a_run_from_a_file_that_ends_early(here):
    text = NETS.replace("rounds = 2", "rounds = 9").replace("count = 3", "count = 3\nvalidation = 0.3")
    recipe = read_text(here, text + "[early_stopping]\nmin_delta = 9\npatience = 2\n[track]\njsonl = true\n")
    federation = recipe.federation()
    federation.run(recipe.rounds, run_dir=here / "run", callbacks=recipe.callbacks())
    assert federation.history.rounds == 3
    assert len((here / "run/metrics.jsonl").read_text().splitlines()) == 3
    assert json.loads((here / "run/summary.json").read_text())["best_by_validation"]["round"] == 1
