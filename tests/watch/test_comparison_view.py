"""How a comparison stands: what is over, what is played, what failed, and how long it will take."""

from __future__ import annotations

import json

import pytest

from potluck.comparison.compare import compare
from potluck.watch.comparison_view import ComparisonWatcher
from tests.recipes.files import NETS, here, write
from tests.watch.folders import row, write_run

__all__ = ["here"]


def comparison(folder, *cells, rounds=10, live=None, **about):
    """A comparison's folder, with (method, seed) for each of its cells."""
    folder.mkdir(exist_ok=True)
    listed = [{"method": m, "settings": [], "seed": s, "folder": f"{m}/seed-{s}"} for m, s in cells]
    told = {"metric": None, "rounds": rounds, "cells": listed, **about}
    (folder / "comparison.json").write_text(json.dumps(told))
    if live is not None:
        (folder / "live.json").write_text(json.dumps(live))


def over(folder, accuracy, **summary):
    write_run(folder, row(10, "a", accuracy), state="ended")
    told = {"headline": "accuracy", "accuracy": accuracy, **summary}
    (folder / "summary.json").write_text(json.dumps(told))
    (folder / "measured.json").write_text("{}")


CELLS = [("FD", 0), ("Local", 0), ("FD", 1), ("Local", 1)]


def test_what_is_over_played_and_failed(tmp_path):
    comparison(tmp_path, *CELLS, failed={"Local, seed 1": "it broke"})
    over(tmp_path / "FD/seed-0", 0.5)
    over(tmp_path / "Local/seed-0", 0.25)
    write_run(tmp_path / "FD/seed-1", row(1, "a"), row(2, "a"), ago=20.0)
    view = ComparisonWatcher(tmp_path).look()
    fd, local = view.candidates
    assert (fd.name, fd.runs, fd.done, fd.mean, fd.playing, fd.failed) == ("FD", 2, 1, 0.5, [(1, 2, 10)], [])
    assert (local.done, local.mean, local.failed) == (1, 0.25, [(1, "it broke")])
    assert (view.title, view.metric, view.share) == ("FD, Local", "accuracy", True)
    assert (view.played, view.rounds) == (22, 40)
    assert [run.title for run in view.running] == ["FD, seed 1"]
    assert view.left == pytest.approx(80, rel=0.1), "10 seconds each for 8 rounds; what failed takes no time"
    assert json.loads(json.dumps(view.to_json()))["running"][0]["round"] == 2


def test_the_mean_and_deviation_of_several_seeds_and_of_another_metric(tmp_path):
    comparison(tmp_path, *CELLS, metric="loss")
    over(tmp_path / "FD/seed-0", 0.5)
    over(tmp_path / "FD/seed-1", 0.7)
    view = ComparisonWatcher(tmp_path).look()
    assert (view.metric, view.less, view.candidates[0].mean) == ("loss", True, 1.0)
    comparison(tmp_path, *CELLS)
    found = ComparisonWatcher(tmp_path).look().candidates[0]
    assert (found.mean, found.deviation) == (pytest.approx(0.6), pytest.approx(0.1414, abs=1e-4))


@pytest.mark.parametrize(
    ("live", "state"),
    [
        (None, "waiting"),
        ({"state": "interrupted"}, "interrupted"),
        ({"state": "failed", "why": "no"}, "failed"),
        ({"state": "ended"}, "waiting"),
        ({"state": "playing", "host": "elsewhere"}, "playing"),
    ],
)
def test_how_it_ended(tmp_path, live, state):
    comparison(tmp_path, *CELLS, live=live)
    assert ComparisonWatcher(tmp_path).look().state == state


def test_a_run_that_is_played_further_is_not_over(tmp_path):
    comparison(tmp_path, ("FD", 0), rounds=20)
    over(tmp_path / "FD/seed-0", 0.5)
    write_run(tmp_path / "FD/seed-0", *(row(n, "a") for n in range(1, 12)), rounds=20)
    found = ComparisonWatcher(tmp_path).look()
    assert (found.candidates[0].done, found.candidates[0].playing) == (0, [(0, 11, 20)])


def test_a_real_one_while_it_goes_on_and_afterwards(here):
    seen = []

    def watch(played, in_all, title):
        seen.append(ComparisonWatcher(here / "out").look())

    compare(["FedAvg"], write(here, NETS), seeds=1, out="out", watch=watch)
    assert {view.state for view in seen} == {"playing"}
    assert max(view.played for view in seen) == 4
    view = ComparisonWatcher(here / "out").look()
    assert (view.state, view.played, view.rounds, [each.done for each in view.candidates]) == ("ended", 4, 4, [1, 1])


def test_while_settings_are_searched(tmp_path):
    searches = [{"method": name, "trials": 4, "folder": f"tuning/{name}", "tried": []} for name in ("FD", "Local")]
    comparison(tmp_path, tuning=searches)
    write_run(tmp_path / "tuning/FD/trial-002", row(1, "a"), row(2, "a"))
    (tmp_path / "tuning/FD/tried.json").write_text('{"trials": [1, 2]}')
    view = ComparisonWatcher(tmp_path).look()
    assert [(each.name, each.tried) for each in view.candidates] == [("FD", (2, 4)), ("Local", (0, 4))]
    assert (view.title, view.played, view.rounds) == ("FD, Local", 22, 80)
    assert [run.title for run in view.running] == ["FD, trial 3"]
