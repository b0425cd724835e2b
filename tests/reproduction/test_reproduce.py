"""An item is played once, goes on where it stopped, and is kept with what it was made with."""

from __future__ import annotations

import json

import pytest

import potluck
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.history import History
from potluck.recipes import read
from potluck.report.folders import read_trial
from potluck.report.trials import Entry
from tests.reproduction.items import ITEM, write_item
from tests.tables import agree


def test_each_row_is_what_its_run_file_gives(tmp_path):
    path = write_item(tmp_path)
    found = potluck.reproduce(path, seeds=2, out=tmp_path / "out")
    for seed in (0, 1):
        alone = read(path, ["rounds=1"], {"seed": seed}).federation().run(1)
        agree(History.load(tmp_path / f"out/fedavg/seed-{seed}").rows(), alone.rows(), 0)
    assert found.values("FedAvg", "share of FedAvg") == [1.0, 1.0]
    kept = json.loads((tmp_path / "out" / "reproduction.json").read_text())
    assert kept["rows"][1]["ours"]["accuracy"] == found.values("Local", "accuracy")
    assert kept["scale"] == "smoke"
    assert kept["reduced"] == "one round."
    assert kept["versions"]["torch"]


LOOKING = """
def look(federation):
    return {"rounds that were seen": float(federation.history.rounds), "people": float(len(federation.participants))}
"""


def test_what_is_found_in_the_networks_is_a_measure(tmp_path):
    (tmp_path / "looking_glass_of_nobody.py").write_text(LOOKING)
    text = ITEM.replace("measures = [", 'inspect = ["looking_glass_of_nobody:look"]\nmeasures = ["people", ')
    found = potluck.reproduce(write_item(tmp_path, text), out=tmp_path / "out")
    assert found.values("FedAvg", "people") == found.values("Local", "people") == [3.0]
    assert read_trial(tmp_path / "out/local/seed-0", Entry("Local")).inspected["rounds that were seen"] == 1


def test_what_was_played_is_not_played_again(tmp_path, monkeypatch):
    path = write_item(tmp_path)
    potluck.reproduce(path, out=tmp_path / "out")
    titles = []
    monkeypatch.setattr("potluck.comparison.cell_queue.play", lambda cell, told: titles.append(cell.title))
    potluck.reproduce(path, out=tmp_path / "out")
    assert titles == []
    edited = ITEM.replace('"accuracy" = 60.0', '"accuracy" = 61.0')
    potluck.reproduce(write_item(tmp_path, edited), out=tmp_path / "out")
    assert titles == []  # what was published decides nothing


def test_a_row_that_fails_is_named_and_the_others_are_played(tmp_path):
    broken = ITEM.replace('set = ["method=Local"]', "set = [\"method={name='FedMD'}\"]")
    found = potluck.reproduce(write_item(tmp_path, broken), out=tmp_path / "out")
    assert list(found.failed) == ["Local, seed 0"]
    assert found.values("FedAvg", "accuracy")
    worse = broken.replace('method = "FedAvg"', 'method = "FedMD"')
    with pytest.raises(PotluckError, match="Nothing of item could be played"):
        potluck.reproduce(write_item(tmp_path, worse), out=tmp_path / "other")


def test_data_that_are_not_here_are_one_message(tmp_path, monkeypatch):
    monkeypatch.setenv("POTLUCK_DATA", str(tmp_path / "nowhere"))
    needing = ITEM.replace('[data.source]\nname = "generated"\nsamples = 200\nfeatures = 4\nclasses = 3\n', "")
    with pytest.raises(PotluckError, match=r"FedAvg, seed 0; Local, seed 0: .*mnist is not here") as told:
        potluck.reproduce(write_item(tmp_path, f'data.source = "mnist"\n{needing}'), out=tmp_path / "out")
    assert str(told.value).count("potluck download mnist") == 1


def test_an_unknown_scale_and_no_seeds_are_told(tmp_path):
    path = write_item(tmp_path)
    with pytest.raises(SettingsError, match=r"cannot be played at the scale 'paper'. Known: small, smoke"):
        potluck.reproduce(path, scale="paper", out=tmp_path / "out")
    with pytest.raises(SettingsError, match="seeds is 0"):
        potluck.reproduce(path, seeds=0)
