"""Exported models in use: inputs in any form, answers in labels or values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
from xgboost import XGBClassifier

import potluck
from potluck.core.errors import DataError
from potluck.methods import CoFED, FedProto, Local
from tests.export.models import LABELS, TEST, after_a_run, patients


def saved(me, folder):
    me.save(folder / "model")
    return potluck.load(folder / "model")


def of_patients(model, **settings):
    me = potluck.Participant("ann", model, (patients(), "state"), **settings)
    potluck.Federation([me], Local()).run(1)
    return me


def test_it_answers_as_the_participant_does(tmp_path):
    me = after_a_run(FedProto())[0]
    model = saved(me, tmp_path)
    assert model.labels == LABELS
    assert repr(model).startswith("ExportedModel('p0', torch.nn.modules.container.Sequential")
    for x in (TEST[0], TEST[0].astype("float64"), torch.from_numpy(TEST[0]), TEST[0].tolist()):
        assert list(model.predict(x)) == list(me.predict(TEST[0]))
    np.testing.assert_allclose(model.predict_proba(TEST[0]), me.predict_proba(TEST[0]), rtol=1e-5, atol=1e-6)


def test_many_inputs_are_answered_in_parts(tmp_path, monkeypatch):
    me = after_a_run(Local())[0]
    model = saved(me, tmp_path)
    monkeypatch.setattr("potluck.export.loaded.ROWS", 7)
    np.testing.assert_allclose(model.predict_proba(TEST[0]), me.predict_proba(TEST[0]), rtol=1e-5, atol=1e-6)


ENCODED = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        (XGBClassifier(n_estimators=5, enable_categorical=True), {}),
        (DecisionTreeClassifier(), {"preprocess": ENCODED}),
        ("mlp", {"preprocess": ENCODED}),
    ],
)
def test_tables_are_read_by_the_names_of_columns(model, settings, tmp_path):
    me = of_patients(model, **settings)
    found, frame = saved(me, tmp_path), patients(20, 1)
    expected = me.predict_proba(frame.drop(columns="state"))
    other = frame.astype({"ward": str})[["state", "ward", "pressure", "age"]]  # as from a file, in another order
    np.testing.assert_allclose(found.predict_proba(other), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(DataError, match=r"the table has no column 'pressure'. Did you mean 'presure'"):
        found.predict(other.rename(columns={"pressure": "presure"}))


def test_types_that_are_not_known_may_be_trusted(tmp_path):
    me = of_patients(LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1))
    me.save(tmp_path / "model")
    with pytest.raises(potluck.SettingsError, match="lightgbm"):
        potluck.load(tmp_path / "model")
    trusted = ["collections.OrderedDict", "lightgbm.basic.Booster", "lightgbm.sklearn.LGBMClassifier"]
    found = potluck.load(tmp_path / "model", trusted)
    assert list(found.predict(patients(20, 1))) == list(me.predict(patients(20, 1).drop(columns="state")))


def test_labels_that_an_estimator_did_not_see(tmp_path):
    """XGBoost knows the labels of its own rows by number."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    people = [
        potluck.Participant("ann", XGBClassifier(n_estimators=3), (x, np.where(x[:, 0] > 0, "c", "a")), labels="abc"),
        potluck.Participant("bob", DecisionTreeClassifier(), (x, np.where(x[:, 0] > 0, "c", "b")), labels="abc"),
    ]
    potluck.Federation(people, Local()).run(1)
    model = saved(people[0], tmp_path)
    assert set(model.predict(x)) == {"a", "c"}
    assert model.predict_proba(x).shape == (40, 3)
    np.testing.assert_allclose(model.predict_proba(x), people[0].predict_proba(x))


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (
            np.zeros((2, 1, 5, 6), dtype="float32"),
            r"the shape \(1, 5, 6\) in floats; expected \(1, 6, 6\) in floats",
        ),
        (np.zeros((2, 1, 6, 6), dtype="uint8"), "in bytes; expected"),
        ({"ids": np.zeros((2, 3))}, r"inputs are \['ids'\]; expected \['x'\]"),
    ],
)
def test_other_inputs_are_told(x, why, tmp_path):
    model = saved(after_a_run(Local())[0], tmp_path)
    with pytest.raises(DataError, match=why):
        model.predict(x)


def test_a_file_of_another_class_is_told(tmp_path):
    folder = tmp_path / "model"
    after_a_run(CoFED(update_batch_size=16), DecisionTreeClassifier(), DecisionTreeClassifier())[0].save(folder)
    text = (folder / "potluck.json").read_text()
    (folder / "potluck.json").write_text(text.replace("sklearn.tree._classes.DecisionTreeClassifier", "other.Tree"))
    with pytest.raises(DataError, match=r"holds a sklearn.*DecisionTreeClassifier; expected a other.Tree"):
        potluck.load(folder)
