"""Optuna tries as many settings of each method, looks at validation data alone, and goes on after a break."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from potluck.comparison import tuning
from potluck.comparison.compare import compare
from potluck.comparison.tuning import Tuning, plan_tunings, tune
from potluck.core.errors import DataError, PotluckError, SettingsError
from potluck.core.history import History
from potluck.report.folders import TRIED
from tests.recipes.files import NETS, here, write

__all__ = ["here"]

TEXT = NETS.replace("count = 3", "count = 3\nvalidation = 0.3")
SEARCH = ["plan.lr=1e-4..1:log"]


def plan(here, *methods, text=TEXT, trials=3, sweeps=SEARCH, **more):
    given = {"changes": (), "options": (), "metric": None, "pooled": False, **more}
    return plan_tunings(write(here, text), methods or ["FedAvg"], trials, 0, Path("out"), sweeps=sweeps, **given)


def tried(search):
    return json.loads((search.folder / TRIED).read_text())["trials"]


def test_as_many_trials_for_each_method_and_local_without_a_setting_is_tried_once(here):
    assert [(each.method, each.trials) for each in plan(here, "FedAvg", "FedProx", pooled=True)] == [
        ("FedAvg", 3), ("FedProx", 3), ("Local", 3), ("Pooled", 3),
    ]  # fmt: skip
    own = plan(here, "FedProx", sweeps=["FedProx.mu=0.1,1"])
    assert [(each.method, each.trials) for each in own] == [("FedProx", 3), ("Local", 1)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"sweeps": []}, "needs something to search"),
        ({"sweeps": ["FedProx.mu=0.1,1"]}, "FedAvg has none of the settings to search, and every method must have"),
        ({"text": NETS}, "--tune chooses by validation data"),
        ({"sweeps": ["plan.lr=-1..1"]}, "lr"),
    ],
)
def test_what_would_not_be_fair_or_possible_is_told_before_anything_is_played(here, given, says):
    with pytest.raises(SettingsError, match=says):
        plan(here, "FedAvg", "FedProx", **given)


def test_without_optuna(here, monkeypatch):
    monkeypatch.setattr(tuning, "find_spec", lambda name: None)
    with pytest.raises(PotluckError, match=r"pip install '.\[tune\]'"):
        plan(here)


def test_each_trial_is_a_run_and_the_best_on_validation_data_is_chosen(here):
    search, *_ = plan(here)
    told = []
    tune(search, told.append)
    found = tried(search)
    assert [each["number"] for each in found] == [0, 1, 2]
    assert told == sorted(told)
    assert told[-1] == 6
    assert all(1e-4 <= float(each["settings"][0][1]) <= 1 for each in found)
    assert len({each["settings"][0][1] for each in found}) == 3
    for each in found:
        measured = json.loads((search.folder / f"trial-{each['number']:03}/measured.json").read_text())["validation"]
        values = [metrics["accuracy"] for metrics in measured.values()]
        assert each["value"] == pytest.approx(sum(values) / len(values))
        assert each["state"] == "complete"
    best = max(found, key=lambda each: each["value"])
    assert search.chosen() == tuple(map(tuple, best["settings"]))


def test_a_search_that_was_cut_off_goes_on_as_an_unbroken_one(here, monkeypatch):
    unbroken, *_ = plan(here, trials=5)
    tune(unbroken, lambda number: None)
    whole = tried(unbroken)
    other = Tuning(**{**vars(unbroken), "folder": Path("other")})
    played = []

    def cut_off(number):
        played.append(number)
        if number == 5:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        tune(other, cut_off)
    assert len(tried(other)) == 2
    tune(other, lambda number: None)
    assert tried(other) == whole
    tune(other, played.append)
    assert played[-1] == 10, "nothing is left to play"


def test_a_trial_that_is_worse_than_the_median_is_cut_off_and_stays_so_after_a_break(here, monkeypatch):
    monkeypatch.setattr(tuning, "STARTUP", 1)
    monkeypatch.setattr(tuning, "WARM_UP", 0.0)
    script = {0: 0.9, 1: 0.1}

    def mean(self, scores):
        return script[self._trial.number]

    monkeypatch.setattr(tuning.Pruner, "mean", mean)
    search, *_ = plan(here, text=TEXT.replace("rounds = 2", "rounds = 4"), trials=2)
    tune(search, lambda number: None)
    first, second = tried(search)
    assert (first["state"], len(first["values"])) == ("complete", 4)
    assert (second["state"], len(second["values"]), second["value"]) == ("pruned", 1, 0.1)
    assert History.load(search.folder / "trial-001").rounds == 1
    search.keep([first])
    tune(search, lambda number: None)
    assert tried(search)[1] == second


def test_a_setting_that_comes_again_is_not_played_again(here, monkeypatch):
    titles = []
    real = tuning.play

    def play(cell, *given):
        titles.append(cell.folder.name)
        real(cell, *given)

    monkeypatch.setattr(tuning, "play", play)
    search, *_ = plan(here, trials=4, sweeps=["plan.lr=0.1"])
    tune(search, lambda number: None)
    assert titles == ["trial-000"]
    assert [each["why"] for each in tried(search)] == ["", *["as trial 0"] * 3]


def test_a_trial_that_fails_is_a_trial_and_where_all_fail_it_is_told_why(here, monkeypatch):
    real, calls = tuning.play, []

    def play(cell, *given):
        calls.append(cell)
        if len(calls) != 2:
            raise DataError("no samples")
        real(cell, *given)

    monkeypatch.setattr(tuning, "play", play)
    search, *_ = plan(here, trials=3)
    tune(search, lambda number: None)
    assert [each["state"] for each in tried(search)] == ["failed", "complete", "failed"]
    broken = Tuning(**{**vars(search), "folder": Path("broken"), "trials": 1})
    calls.append(None)
    with pytest.raises(PotluckError, match="no samples"):
        tune(broken, lambda number: None)


def test_less_is_better_of_a_loss(here):
    search, *_ = plan(here, trials=2, metric="loss")
    tune(search, lambda number: None)
    best = min(tried(search), key=lambda each: each["value"])
    assert search.chosen() == tuple(map(tuple, best["settings"]))


def test_other_settings_begin_anew(here):
    search, *_ = plan(here, trials=1)
    tune(search, lambda number: None)
    assert len(search.tried()) == 1
    other, *_ = plan(here, trials=1, sweeps=["plan.lr=0.1,0.2"])
    assert other.tried() == []
    more, *_ = plan(here, trials=9)
    assert len(more.tried()) == 1, "more trials go on with those there are"


def test_a_search_survives_json(here):
    search, *_ = plan(here, options=[("rounds", 1)])
    assert Tuning.from_json(json.loads(json.dumps(search.to_json()))) == search


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_comparison_plays_what_was_chosen_with_all_seeds(here, jobs):
    write(here, TEXT)
    search = [*SEARCH, "FedProx.mu=0.01,0.1,1"]
    found = compare(["FedAvg", "FedProx"], "small.toml", seeds=2, tune=3, sweep=search, out="out", jobs=jobs)
    told = json.loads(Path("out/comparison.json").read_text())
    assert [(each["method"], len(each["tried"])) for each in told["tuning"]] == [
        ("FedAvg", 3), ("FedProx", 3), ("Local", 3),
    ]  # fmt: skip
    assert "--tune 3" in told["command"]
    assert len(found.standings.trials) == 6
    shown = {entry.method: dict(entry.settings) for entry in found.standings.entries}
    assert set(shown["FedProx"]) == {"plan.lr", "method.mu"}
    text = found.table()
    assert "Of each method the best of 3 settings that Optuna tried is shown, chosen by accuracy on validation" in text
    assert text.count("chosen") == 1 + 3
    assert "What was tried" in found.report("report.html").read_text()
    before = {path: path.stat().st_mtime_ns for path in Path("out").rglob("history.jsonl")}
    compare(["FedAvg", "FedProx"], "small.toml", seeds=2, tune=3, sweep=search, out="out", jobs=jobs)
    assert {path: path.stat().st_mtime_ns for path in Path("out").rglob("history.jsonl")} == before


@pytest.mark.slow
def test_a_method_that_does_not_fit_is_named_and_the_others_are_compared(here):
    found = compare(["FedAvg", "MHAT"], write(here, TEXT), seeds=1, tune=2, sweep=SEARCH)
    assert [entry.method for entry in found.standings.entries] == ["FedAvg", "Local"]
    assert "- MHAT, tuning: MHAT does not fit this federation" in found.table()
