"""``potluck compare``: the table on standard output, what failed as an exit code, and what kill -9 leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from potluck.core.history import History
from tests.cli.commands import potluck, start
from tests.recipes.files import MODULE, write
from tests.tables import agree


def test_the_table_and_where_it_is_kept(here):
    result = potluck("compare", "CoFED", "--federation", write(here), "--seeds", 1, "--target", 0.2)
    assert "rounds to 20.0%" in result.stdout
    assert "1 seed nothing can be said" in result.stdout
    assert result.stdout.endswith("Kept in runs/compare-small. A page of it: potluck report runs/compare-small\n")
    lines = result.stderr.splitlines()
    assert all(re.search(r" \d+ of (\d+) rounds of all runs; now \w+, seed 3", line) for line in lines)
    assert len(lines) == int(re.search(r" of (\d+) rounds", lines[0])[1])


def test_another_metric_and_other_settings(here):
    options = ("--metric", "macro_f1", "--rounds", 1, "--engine", "serial", "--set", "plan.lr=0.1", "--out", "out")
    result = potluck("compare", "CoFED", "--federation", write(here), "--seeds", 1, *options)
    assert "macro F1 %" in result.stdout
    assert {row["round"] for row in History.load("out/CoFED/seed-3").rows()} == {1}
    assert json.loads((here / "out/CoFED/seed-3/settings.json").read_text())["engine"] == "serial"


def test_a_method_that_does_not_fit_is_told_with_exit_code_1(here):
    result = potluck("compare", "FedAvg", "--federation", write(here), "--seeds", 1, "--rounds", 1, fails=1)
    assert "FedAvg, seed 3: FedAvg does not fit this federation" in result.stdout


def test_a_mistake_is_told_with_exit_code_2(here):
    result = potluck("compare", "FedAvgg", "--federation", write(here), fails=2)
    assert "Did you mean 'FedAvg'" in result.stderr
    assert not (here / "runs").exists()


SLOW = """

class Slow(potluck.Method):
    def round(self, me):
        import time
        time.sleep(0.15)
        yield potluck.Fit()
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_in_the_middle_it_goes_on_to_the_same_end(here, jobs):
    (here / "mine.py").write_text(MODULE + SLOW)
    command = ("compare", "mine:Slow", "--federation", write(here), "--seeds", 2, "--rounds", 6, "--jobs", jobs)
    process = start(*command, "--out", "cut", cwd=here)
    file = here / "cut/Slow/seed-3/history.jsonl"
    while not (file.exists() and file.read_text().count("\n") >= 6):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    time.sleep(0.5)  # workers end with it
    assert not (here / "cut/Slow/seed-4/measured.json").exists()
    played = file.stat().st_size
    potluck(*command, "--out", "cut")
    assert file.stat().st_size >= played
    potluck(*command, "--out", "whole")
    for cell in ("Slow/seed-3", "Slow/seed-4", "Local/seed-3", "Local/seed-4"):
        agree(History.load(here / "cut" / cell).rows(), History.load(here / "whole" / cell).rows(), 0)


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(here):
    (here / "mine.py").write_text(MODULE + SLOW)
    process = start("compare", "mine:Slow", "--federation", write(here), "--rounds", 20, "--jobs", 2, cwd=here)
    while not list(here.rglob("history.jsonl")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "The same command goes on." in err
