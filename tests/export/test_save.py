"""Saving a participant: what is in the folder, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.core.errors import ModelError, SettingsError
from potluck.export.facts import ModelFacts
from potluck.methods import CoFED, FedProto, Local
from tests.export.models import TEST, after_a_run, named

PLAIN_TORCH = """
import sys
sys.modules["potluck"] = sys.modules["tests"] = None  # neither can be imported
import numpy as np, torch
folder = sys.argv[1]
program = torch.export.load(f"{folder}/model.pt2").module()
x = torch.from_numpy(np.load(f"{folder}/../x.npy"))
np.save(f"{folder}/../y.npy", program(x).detach().numpy())
try:
    import potluck
except ImportError:
    print("without potluck")
"""


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("method", [Local(), FedProto()])
def test_plain_torch_answers_as_the_method_does_where_potluck_is_not(method, tmp_path):
    me = after_a_run(method)[0]
    me.save(tmp_path / "model")
    assert files_of(tmp_path / "model") == {"model.pt2", "weights.safetensors", "potluck.json", "README.md"}
    np.save(tmp_path / "x.npy", TEST[0])
    command = [sys.executable, "-c", PLAIN_TORCH, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "without potluck\n"
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), me.predict_proba(TEST[0]), rtol=1e-5, atol=1e-6)


def test_an_estimator_and_its_labels(tmp_path):
    me = after_a_run(CoFED(update_batch_size=16), DecisionTreeClassifier(), DecisionTreeClassifier())[0]
    me.save(tmp_path / "model")
    assert files_of(tmp_path / "model") == {"model.skops", "potluck.json", "README.md"}
    facts = ModelFacts.read(tmp_path / "model")
    assert (facts.kind, facts.numbered, facts.inputs) == ("skops", False, {})


def test_preprocessing_comes_along(tmp_path):
    data = np.random.default_rng(0).normal(5, 3, size=(40, 4)), np.arange(40) % 2
    me = potluck.Participant("ann", "mlp", data, preprocess=StandardScaler())
    potluck.Federation([me], Local()).run(1)
    me.save(tmp_path / "model", test=data)
    assert "preprocess.skops" in files_of(tmp_path / "model")
    facts = ModelFacts.read(tmp_path / "model")
    assert facts.preprocess == "sklearn.preprocessing._data.StandardScaler"
    assert facts.metrics["accuracy"] == np.mean(me.predict(data[0]) == data[1])


def test_what_was_not_tested_has_no_metrics(tmp_path):
    me = potluck.Participant("ann", "mlp", named(20, 0))
    potluck.Federation([me], Local()).run(1)
    me.save(tmp_path / "model")
    assert ModelFacts.read(tmp_path / "model").metrics == {}
    assert "It was not measured" in (tmp_path / "model" / "README.md").read_text()


def test_a_transform_is_in_the_program(tmp_path):
    me = after_a_run(Local(), plan=potluck.Plan(transform=halved))[0]
    me.save(tmp_path / "model")
    facts = ModelFacts.read(tmp_path / "model")
    assert facts.transform.endswith("halved")
    found = torch.export.load(tmp_path / "model" / "model.pt2").module()(torch.from_numpy(TEST[0]))
    np.testing.assert_allclose(found.detach(), me.predict_proba(TEST[0]), rtol=1e-5, atol=1e-6)


def halved(x):
    return x / 2


def test_several_inputs_keep_their_names(tmp_path):
    random = np.random.default_rng(0)
    x = {"ids": random.integers(0, 9, (30, 5)), "mask": np.ones((30, 5), dtype=bool)}
    me = potluck.Participant("ann", "transformer", (x, np.arange(30) % 2))
    potluck.Federation([me], Local(), device="cpu").run(1)
    me.save(tmp_path / "model")
    assert {name: about.dtype for name, about in ModelFacts.read(tmp_path / "model").inputs.items()} == {
        "ids": "int64",
        "mask": "bool",
    }
    np.testing.assert_allclose(potluck.load(tmp_path / "model").predict_proba(x), me.predict_proba(x), atol=1e-5)


def test_values_come_in_the_users_units(tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 3)).astype("float32")
    me = potluck.Participant("ann", "mlp", (x, 1000 + 50 * x[:, 0]), task="regression")
    potluck.Federation([me], Local()).run(2)
    me.save(tmp_path / "model")
    assert 700 < potluck.load(tmp_path / "model").predict(x).mean() < 1300
    np.testing.assert_allclose(potluck.load(tmp_path / "model").predict(x), me.predict(x), rtol=1e-4)


def test_what_is_there_stays_and_failures_leave_nothing(tmp_path):
    me = after_a_run(Local())[0]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").write_text("")
    with pytest.raises(SettingsError, match="is not empty and stays as it is"):
        me.save(tmp_path / "full")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="is a file; expected a folder"):
        me.save(tmp_path / "file")
    with pytest.raises(SettingsError, match="Nothing can be written"):
        me.save(tmp_path / "file" / "inside")
    tree = after_a_run(Local(), DecisionTreeClassifier())[0]
    with pytest.raises(SettingsError, match="DecisionTreeClassifier is no torch module; ONNX is for those"):
        tree.save(tmp_path / "tree", onnx=True)
    assert files_of(tmp_path) == {"full", "file"}


def test_a_participant_that_never_joined_is_told(tmp_path):
    with pytest.raises(ModelError, match="is built when the participant joins a federation"):
        potluck.Participant("ann", "mlp", named(20, 0)).save(tmp_path / "model")


def test_numbers_that_may_be_data_are_told(tmp_path, caplog):
    me = after_a_run(Local())[0]
    rows = me.thing("data").x.float().flatten(1)

    def nearest(me, inputs):
        logits = yield potluck.Predict(inputs)
        return logits + 0 * (inputs.x.flatten(1) @ rows.T).sum(dim=1, keepdim=True)

    me.answering = nearest
    with caplog.at_level("WARNING"):
        me.save(tmp_path / "model")
        assert "see whether they are data" in caplog.text
        caplog.clear()
        after_a_run(FedProto())[0].save(tmp_path / "other")
        assert [record for record in caplog.records if record.name.startswith("potluck")] == []
