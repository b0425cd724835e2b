"""``potluck new``: a run file and a module that work as they are."""

from __future__ import annotations

import json
import tomllib

from tests.cli.commands import potluck


def test_what_is_written_can_be_checked_and_run(here):
    said = potluck("new", "my table").stdout
    assert "potluck check 'my table/federation.toml'" in said
    assert "CoFED*" in potluck("check", "my table/federation.toml").stdout.split("What does not fit")[0]
    potluck("run", "my table/federation.toml", "--out", "together")
    potluck("run", "my table/federation.toml", "--out", "alone", "--set", "method=Local")
    together, alone = (json.loads((here / name / "summary.json").read_text()) for name in ("together", "alone"))
    assert together["accuracy"] > alone["accuracy"] + 0.05


def test_ones_own_data_can_be_used(here):
    potluck("new")
    quick = ("--set", "plan.epochs=1", "--set", "method.update_epochs=1")
    potluck("run", "federation.toml", "--set", "participants.lab.data=mine:load", *quick)
    settings = json.loads((here / "runs/federation-0/settings.json").read_text())
    assert {who["name"]: who["samples"] for who in settings["participants"]}["lab"] == 60


def test_every_line_is_commented_or_valid(here):
    potluck("new")
    text = (here / "federation.toml").read_text()
    assert tomllib.loads(text)["method"]["name"] == "CoFED"
    assert text.count("#") > 15
    assert max(len(line) for line in text.splitlines()) <= 100


def test_nothing_is_overwritten(here):
    (here / "mine.py").write_text("precious")
    said = potluck("new", fails=2).stderr
    assert said == "Error: mine.py is there already and stays as it is; choose another folder.\n"
    assert (here / "mine.py").read_text() == "precious"
    assert not (here / "federation.toml").exists()


def test_a_folder_that_cannot_be(here):
    (here / "file").write_text("")
    assert "Nothing can be written to file/inside: Not a directory." in potluck("new", "file/inside", fails=2).stderr
