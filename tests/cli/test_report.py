"""``potluck report`` on what ``compare`` and ``run`` wrote, and on what they did not."""

from __future__ import annotations

from tests.cli.commands import potluck
from tests.recipes.files import write


def test_a_comparison_becomes_a_page(here):
    potluck("compare", "CoFED", "--federation", write(here), "--seeds", 1, "--out", "out")
    result = potluck("report", "out", "--figures", "figures")
    assert "Written: out/report.html" in result.stdout
    assert "What travelled" in (here / "out/report.html").read_text()
    assert "CoFED,votes,sent" in (here / "figures/traffic.csv").read_text()


def test_runs_become_a_page_beside_each_other(here):
    file = write(here)
    for seed in (0, 1):
        potluck("run", file, "--seed", seed, "--out", f"runs/{seed}")
    potluck("report", "runs/0", "runs/1", "--target", 0.2)
    assert "rounds to 20.0%" in (here / "report.html").read_text()


def test_what_is_no_run_is_told(here):
    assert "There is no run in ." in potluck("report", ".", fails=2).stderr


def test_an_unknown_metric_is_told_with_a_suggestion(here):
    potluck("run", write(here), "--out", "one")
    assert "'accuracy'" in potluck("report", "one", "--metric", "acuracy", fails=2).stderr
