"""One cell: when it is done, and what is measured besides its history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from potluck.comparison.cells import plan_cells
from potluck.comparison.play import is_done, play
from potluck.core.errors import SettingsError
from tests.recipes.files import SMALL, write


def cell(here, text=SMALL, **more):
    return plan_cells(write(here, text), ["CoFED"], [0], Path("out"), **more)[0]


def test_a_cell_is_done_when_it_was_played_as_it_is_asked_for(here):
    one = cell(here)
    assert not is_done(one)
    rounds = []
    play(one, rounds.append)
    assert rounds == [1, 2, 2]
    assert is_done(one)
    assert not is_done(cell(here, cross=True))
    assert not is_done(cell(here, options=[("rounds", 3)]))


def test_who_holds_what_and_how_good_it_is_on_validation_data(here):
    play(cell(here, SMALL.replace("count = 2", "count = 2\nvalidation = 0.25")), lambda number: None)
    found = json.loads((here / "out/CoFED/seed-0/measured.json").read_text())
    assert set(found["validation"]) == {"net1", "net2"}
    assert all(0 <= metrics["accuracy"] <= 1 for metrics in found["validation"].values())
    samples = json.loads((here / "out/CoFED/seed-0/settings.json").read_text())["participants"]
    counts = {party["name"]: sum(party["counts"].values()) for party in found["participants"]}
    assert counts == {party["name"]: party["samples"] for party in samples}


def test_fewer_rounds_than_there_are_need_another_folder(here):
    play(cell(here), lambda number: None)
    with pytest.raises(SettingsError, match="holds 2 rounds, and 1 were asked for"):
        play(cell(here, options=[("rounds", 1)]), lambda number: None)
