"""`potluck export` and `potluck predict`: from a run folder to a column of a table."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import potluck as package
from potluck.methods import Local
from tests.cli.commands import potluck
from tests.export.models import patients

RUN = """\
rounds = 1
method = "Local"

[[participants]]
name = "clinic"
model = "mlp"
data = { name = "patients.csv", target = "state", drop = ["ward"] }
test = { name = "patients.csv", target = "state", drop = ["ward"] }
"""


@pytest.fixture
def run(here):
    """A run of a participant with a table."""
    patients().to_csv(here / "patients.csv", index=False)
    (here / "run.toml").write_text(RUN)
    potluck("run", "run.toml", "--out", "run")
    return here


def test_from_a_run_to_a_column(run):
    said = potluck("export", "run", "--out", "model", "--onnx").stdout
    assert "Wrote model: clinic's model after round 1 of Local." in said
    assert "On 60 test samples: accuracy" in said
    assert {path.name for path in (run / "model").iterdir()} == {
        "README.md",
        "model.onnx",
        "model.pt2",
        "potluck.json",
        "weights.safetensors",
    }
    summary = json.loads((run / "run" / "summary.json").read_text())
    assert json.loads((run / "model" / "potluck.json").read_text())["metrics"]["accuracy"] == summary["accuracy"]
    assert "60 rows with 'prediction'" in potluck("predict", "model", "patients.csv").stdout
    made = pd.read_csv(run / "patients-predicted.csv")
    assert list(made.columns) == ["age", "pressure", "ward", "state", "prediction"]
    assert np.mean(made["prediction"] == made["state"]) == pytest.approx(summary["accuracy"])


def test_probabilities_and_other_names(run):
    potluck("export", "run", "--participant", "clinic", "--out", "model")
    potluck("predict", "model", "patients.csv", "--out", "p.parquet", "--column", "said", "--probabilities")
    made = pd.read_parquet(run / "p.parquet")
    assert list(made.columns)[4:] == ["said", "said of ill", "said of well"]
    np.testing.assert_allclose(made["said of ill"] + made["said of well"], 1, rtol=1e-5)


def test_values_and_texts_that_stand_for_nothing(here):
    x = np.random.default_rng(0).normal(size=(40, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    me = package.Participant("ann", "mlp", (frame.assign(y=10 * x[:, 0]), "y"), task="regression")
    package.Federation([me], Local()).run(1)
    me.save(here / "model")
    frame.assign(b="?").to_csv(here / "gaps.csv", index=False)
    assert "columns hold NaN" in potluck("predict", "model", "gaps.csv", "--missing", "?", fails=2).stderr
    frame.to_csv(here / "whole.csv", index=False)
    potluck("predict", "model", "whole.csv")
    np.testing.assert_allclose(pd.read_csv(here / "whole-predicted.csv")["prediction"], me.predict(frame), rtol=1e-4)


def test_nothing_is_overwritten_and_mistakes_are_told(run):
    potluck("export", "run", "--out", "model")
    assert "is not empty and stays" in potluck("export", "run", "--out", "model", fails=2).stderr
    potluck("predict", "model", "patients.csv")
    assert "is there already and stays" in potluck("predict", "model", "patients.csv", fails=2).stderr
    given = ("predict", "model", "patients.csv", "--out", "other.csv")
    assert "has a column 'age' already" in potluck(*given, "--column", "age", fails=2).stderr
    assert "is no table" in potluck("predict", "model", "run.toml", fails=2).stderr
    assert "no column 'target'" not in potluck("predict", "model", "nowhere.csv", fails=2).stderr
    assert "There is no file" in potluck("predict", "model", "nowhere.csv", fails=2).stderr
    assert "holds no exported model" in potluck("predict", "run", "patients.csv", "--out", "o.csv", fails=2).stderr
    assert "There is no folder 'nowhere'" in potluck("export", "nowhere", "--out", "m", fails=2).stderr
    assert "--file is for" in potluck("export", "run", "--out", "m", "--file", "run.toml", fails=2).stderr
    assert "neither a run folder nor" in potluck("export", "model", "--out", "m", fails=2).stderr
