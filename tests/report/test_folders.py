"""Reads runs and comparisons from their folders."""

from __future__ import annotations

import json

import pytest

from potluck.core.errors import DataError
from potluck.recipes import read
from potluck.report.folders import read_standings
from potluck.report.page import write_report
from tests.recipes.files import NETS, here, write

__all__ = ["here"]


def run(here, out, *changes, seed=0, rounds=1):
    read(write(here, NETS), changes, {"seed": seed}).federation().run(rounds, run_dir=here / out)


def test_single_runs_are_told_apart_by_what_differs(here):
    run(here, "a", seed=0)
    run(here, "b", seed=1)
    run(here, "c", "plan.lr=0.5", seed=0)
    run(here, "d", "method=Local", seed=0)
    found = read_standings([here])
    labels = [(trial.entry.label, trial.seed) for trial in found.trials]
    assert labels == [("FedAvg lr=0.05", 0), ("FedAvg lr=0.05", 1), ("FedAvg lr=0.5", 0), ("Local", 0)]
    assert found.trials[0].holders[0].model == "mlp"
    assert found.metric.name == "accuracy"
    assert read_standings([here / "a", here / "b"], "loss", 0.3).target == 0.3


def test_a_run_that_was_served_has_no_models_to_tell_of(here):
    """A server knows neither what sites bring nor how much data they have."""
    run(here, "a")
    path = here / "a" / "settings.json"
    settings = json.loads(path.read_text())
    names = [party["name"] for party in settings["participants"]]
    settings["participants"] = [{"name": name, "weight": 1.0} for name in names]
    settings["recipe"] = {"participants": [{"name": name, "weight": 1.0, "key": None} for name in names]}
    path.write_text(json.dumps(settings))
    standings = read_standings([here / "a"])
    assert [(holder.name, holder.model, holder.samples) for holder in standings.trials[0].holders] == [
        (name, "", None) for name in names
    ]
    (page,) = write_report(standings, here / "report.html", None)
    assert all(name in page.read_text() for name in names)


def test_the_same_run_twice_is_an_error(here):
    run(here, "a")
    run(here, "b")
    with pytest.raises(DataError, match="are the same run, of FedAvg with seed 0"):
        read_standings([here])


@pytest.mark.parametrize(
    ("settings", "says"),
    [(None, "There is no run in"), ("{", "cannot be read"), ("[]", "holds no object")],
)
def test_what_is_no_run(here, settings, says):
    if settings is not None:
        (here / "settings.json").write_text(settings)
        (here / "history.jsonl").touch()
    with pytest.raises(DataError, match=says):
        read_standings([here])


def test_a_run_without_a_round(here):
    run(here, "a", rounds=0)
    with pytest.raises(DataError, match="no round was played"):
        read_standings([here / "a"])


def test_no_folder_and_a_comparison_among_others(here):
    with pytest.raises(DataError, match="expected at least one"):
        read_standings([])
    run(here, "a")
    (here / "b").mkdir()
    (here / "b/comparison.json").write_text("{}")
    with pytest.raises(DataError, match="report on it alone"):
        read_standings([here / "a", here / "b"])
