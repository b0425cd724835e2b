"""`potluck describe`: from tables that differ to a preprocessor that all use."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas

from tests.cli.commands import potluck

FILE = """
rounds = 1
method = "FedAvg"
engine = "serial"
[[participants]]
name = "north"
model = "mlp"
data = { name = "north.csv", target = "ill" }
disclosure = { min_count = 3 }
[[participants]]
name = "south"
model = "mlp"
data = { name = "south.csv", target = "ill" }
disclosure = { tell = ["count", "mean", "variance", "categories"], min_count = 3 }
"""


def tables(folder):
    random = np.random.default_rng(0)
    for name, extra in (("north", {"smokes": ["yes", "no"] * 15}), ("south", {"height": random.normal(170, 9, 30)})):
        frame = {"age": random.normal(50, 9, 30), **extra, "ill": ["yes"] * 10 + ["no"] * 20}
        pandas.DataFrame(frame).to_csv(folder / f"{name}.csv", index=False)
    (folder / "tables.toml").write_text(FILE)


def test_from_tables_to_a_trained_federation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables(tmp_path)
    said = potluck("describe", "tables.toml", "--out", "common.json").stdout
    assert re.search(r"smokes +categories +1 of 2", said)
    assert "no 15, yes 15" in said
    assert "labels: no 20, yes 10" in said, "south does not tell its classes"
    assert "4 columns of numbers are made by common.json." in said
    prepared = FILE.replace('model = "mlp"', 'model = "mlp"\npreprocess = "common.json"')
    (tmp_path / "train.toml").write_text(prepared)
    potluck("run", "train.toml", "--out", "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 1


def test_test_data_need_not_look_like_tables_before_they_are_prepared(tmp_path, monkeypatch):
    """Everybody is tested on one table with all columns, which only what is to be written here can read."""
    monkeypatch.chdir(tmp_path)
    tables(tmp_path)
    whole = {"age": [50.0, 60.0], "smokes": ["yes", "no"], "height": [170.0, 180.0], "ill": ["yes", "no"]}
    pandas.DataFrame(whole).to_csv(tmp_path / "all.csv", index=False)
    tested = FILE.replace('model = "mlp"', 'model = "mlp"\ntest = { name = "all.csv", target = "ill" }')
    (tmp_path / "tables.toml").write_text(tested)
    potluck("describe", "tables.toml", "--out", "common.json")
    (tmp_path / "train.toml").write_text(tested.replace('model = "mlp"', 'model = "mlp"\npreprocess = "common.json"'))
    potluck("run", "train.toml", "--out", "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 1


def test_a_studys_run_folder_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables(tmp_path)
    potluck("run", "tables.toml", "--set", "method=Describe", "--out", "study")
    assert potluck("describe", "study").stdout == potluck("describe", "tables.toml").stdout


def test_what_is_missing_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tables(tmp_path)
    (tmp_path / "train.toml").write_text(FILE.replace('model = "mlp"', 'model = "mlp"\npreprocess = "comon.json"'))
    said = potluck("run", "train.toml", fails=2).stderr
    assert "comon.json holds no common preprocessor" in said
    potluck("run", "tables.toml", "--set", "method=Local", "--out", "plain", fails=2)
    assert "holds no description" in potluck("describe", ".", fails=2).stderr
