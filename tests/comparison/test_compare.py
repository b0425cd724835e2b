"""A comparison from the question to the table: played once, gone on with, and the same in one process or several."""

from __future__ import annotations

import json

import pytest

import potluck
from potluck.comparison.compare import Comparison, compare
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.history import History
from potluck.recipes import read
from tests.recipes.files import MODULE, NETS, SMALL, write
from tests.tables import agree


def lines(folder):
    return {path.parent.relative_to(folder): path.read_text() for path in folder.rglob("history.jsonl")}


def test_the_comparison_is_what_single_runs_are(here):
    comparison = potluck.compare(["CoFED"], write(here), seeds=2, out="out")
    for method, seed in (("CoFED", 3), ("CoFED", 4), ("Local", 3)):
        changes = [] if method == "CoFED" else ["method=Local"]
        alone = read(here / "small.toml", changes, {"seed": seed}).federation().run(2)
        agree(History.load(here / f"out/{method}/seed-{seed}").rows(), alone.rows(), 0)
    assert [entry.label for entry in comparison.standings.entries] == ["CoFED", "Local"]
    assert comparison.standings.seeds == [3, 4]


def test_all_methods_of_a_seed_have_the_same_participants(here):
    comparison = compare(
        ["FedAvg", "FD"], write(here, NETS.replace("[plan]", "[data.public]\ntake = 30\n[plan]")), seeds=1
    )
    told = [trial.about["participants"] for trial in comparison.standings.trials]
    assert told[0] == told[1] == told[2]
    counts = [trial.holders for trial in comparison.standings.trials]
    assert counts[0] == counts[1] == counts[2]
    assert sum(sum(holder.counts.values()) for holder in counts[0]) == sum(holder.samples for holder in counts[0])


def test_what_is_done_is_not_played_again_and_more_seeds_are_added(here, monkeypatch):
    compare(["CoFED"], write(here), seeds=1, out="out")
    before = lines(here / "out")
    titles = []
    monkeypatch.setattr("potluck.comparison.cell_queue.play", lambda cell, told: titles.append(cell.title))
    compare(["CoFED"], "small.toml", seeds=1, out="out")
    assert titles == []
    compare(["CoFED"], "small.toml", seeds=2, out="out")
    assert titles == ["CoFED, seed 4", "Local, seed 4"]
    assert lines(here / "out") == before


def test_more_rounds_go_on_and_other_settings_are_refused_by_name(here):
    compare(["CoFED"], write(here), seeds=1, out="out", options=[("rounds", 1)])
    compare(["CoFED"], "small.toml", seeds=1, out="out")
    compare(["CoFED"], "small.toml", seeds=1, out="whole")
    assert {len(History.load(here / f"{out}/CoFED/seed-3")) for out in ("out", "whole")} == {6}
    found = compare(["CoFED"], "small.toml", seeds=1, out="out", changes=["method.alpha=0.9"])
    assert "method differ" in found.standings.failed["CoFED, seed 3"]


def test_a_cell_that_fails_is_named_and_the_others_go_on(here):
    (here / "mine.py").write_text(
        MODULE + "\n\nclass Breaks(potluck.Method):\n    def round(self, me):\n"
        "        if me.seed == 4:\n            raise ZeroDivisionError('by nothing')\n        yield potluck.Fit()\n"
    )
    comparison = compare(["mine:Breaks", "FedAvg"], write(here), seeds=2, out="out")
    failed = comparison.standings.failed
    assert set(failed) == {"Breaks, seed 4", "FedAvg, seed 3", "FedAvg, seed 4"}
    assert failed["Breaks, seed 4"].startswith("ZeroDivisionError: by nothing (where it happened is in out")
    assert "mine.py" in (here / "out/Breaks/seed-4/error.txt").read_text()
    table = comparison.table()
    assert "Breaks, seed 4: ZeroDivisionError" in table
    assert "FedAvg, seeds 3, 4: FedAvg does not fit this federation" in table


def test_where_nothing_can_be_played_that_is_an_error(here):
    with pytest.raises(PotluckError, match=r"(?s)No run .*- CoFED, seed 3; Local, seed 3: "):
        compare(["CoFED"], write(here), seeds=1, changes=["data.partition.minimum=500"])


@pytest.mark.slow
def test_several_processes_give_the_same(here):
    compare(["CoFED"], write(here), seeds=1, out="one")
    told = []
    compare(["CoFED"], "small.toml", seeds=1, out="two", jobs=2, watch=lambda *words: told.append(words))
    for method in ("CoFED", "Local"):
        rows = [History.load(here / f"{out}/{method}/seed-3").rows() for out in ("one", "two")]
        agree(*rows, 0)
    assert told[0] == (0, 4, "")
    assert told[-1][:2] == (4, 4)


def test_ceiling_and_cross_evaluation(here):
    comparison = compare(
        ["CoFED"], write(here, SMALL.replace("rounds = 2", "rounds = 1")), seeds=1, pooled=True, cross=True
    )
    assert "Pooled (ceiling)" in comparison.table()
    trial = comparison.standings.trials[0]
    assert set(trial.cross) == {"net1", "net2", "tree"} == set(trial.cross["net1"])
    final = trial.course("accuracy").final
    assert {name: trial.cross[name][name]["accuracy"] for name in final} == pytest.approx(final)


def test_a_sweep_is_decided_on_validation_data(here):
    text = SMALL.replace("count = 2", "count = 2\nvalidation = 0.25").replace("weight = 2.0", "validation = 0.25")
    comparison = compare(["CoFED"], write(here, text), seeds=1, sweep=["method.alpha=0.3,0.9"])
    standings = comparison.standings
    best = max((e for e in standings.entries if e.method == "CoFED"), key=lambda e: standings.validated(e)[0])
    assert [entry for entry in standings.shown if entry.method == "CoFED"] == [best]
    assert "chosen" in comparison.table()


def test_the_folder_says_what_it_was_made_with(here):
    compare(["CoFED"], write(here), seeds=1, out="out", target=0.5, sweep=["plan.lr=0.1"], changes=["rounds=1"])
    about = json.loads((here / "out/comparison.json").read_text())
    assert about["command"] == (
        f"potluck compare CoFED --federation {here}/small.toml --seeds 1 --sweep plan.lr=0.1 --set rounds=1 "
        "--target 0.5"
    )
    assert about["text"] == SMALL
    assert {"python", "torch", "potluck-fl"} <= set(about["versions"])
    assert about["failed"] == {}
    assert Comparison("out").standings.target == 0.5


@pytest.mark.parametrize("given", [{"seeds": 0}, {"jobs": 0}])
def test_at_least_one(here, given):
    with pytest.raises(SettingsError, match="expected at least 1"):
        compare(["CoFED"], write(here), **given)
