"""Additive models: pygam's fit where pygam can do it, the right one where it cannot, and good company in a run."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import potluck
from potluck.core.errors import ModelError, SettingsError
from potluck.learners import serialization as keeping
from potluck.methods import CoFED
from potluck.models import MODELS, build, describe
from potluck.models.additive import AdditiveClassifier, additive
from tests.tables import agree, mlp

pygam = pytest.importorskip("pygam")


def rings(rows, seed=0, classes=2):
    """Two measures and a class that no straight line tells: how far from the middle."""
    x = np.random.default_rng(seed).normal(size=(rows, 2))
    far = (x**2).sum(axis=1)
    return x, np.searchsorted(np.quantile(far, np.arange(1, classes) / classes), far)


def survey(rows, seed=0):
    """A table as surveys are: a measure, a number of few values, a one-hot code, a rare mark, a constant."""
    random = np.random.default_rng(seed)
    age, grade, kind = random.uniform(17, 90, rows), random.integers(0, 4, rows), random.integers(0, 5, rows)
    x = np.column_stack([age, grade, np.eye(5)[kind], random.random(rows) < 0.05, np.full(rows, 7.0)])
    logit = 3 * np.sin(age / 12) + grade - 2 + np.array([2.0, -2, 0, 1, -1])[kind]
    return x, np.where(random.random(rows) < expit(logit), "yes", "no")


# The fit


def test_it_is_pygams_own_fit_where_samples_are_many():
    x, y = rings(300)
    ours = AdditiveClassifier(splines=8, lam=0.5, ridge=0.2).fit(x, y)
    penalties = {"n_splines": 8, "penalties": ["derivative", "l2"], "lam": [0.5, 0.2]}
    theirs = pygam.LogisticGAM(pygam.s(0, **penalties) + pygam.s(1, **penalties), tol=1e-8).fit(x, y)
    found = ours.predict_proba(x)
    np.testing.assert_allclose(found[:, 1], theirs.predict_proba(x), atol=1e-4)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert ours.score(*rings(500, seed=1)) > 0.9


@pytest.mark.parametrize("rows", [6, 20, 60])
def test_the_fit_is_the_optimum_also_where_samples_are_few(rows):
    """The gradient of the penalised likelihood is zero: Bᵀ w (y − p) = P β."""
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(rows).permutation(len(x))[:rows]
    x, y, weight = x[order], y[order], np.random.default_rng(0).uniform(0.5, 2, rows).astype("float32")
    model = AdditiveClassifier().fit(x, y, sample_weight=weight)
    terms, beta = model._terms(), model.coef_[0]
    columns = terms.build_columns(model._scaled(x)).toarray()
    gradient = columns.T @ (weight * (y - expit(columns @ beta))) - terms.build_penalties().toarray() @ beta
    assert np.abs(gradient).max() < 1e-3


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
def test_twenty_samples_are_enough_to_learn_something(load):
    x, y = load(return_X_y=True)
    accuracies = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(x))
        model = AdditiveClassifier().fit(x[order[:20]], y[order[:20]])
        accuracies.append(model.score(x[order[20:]], y[order[20:]]))
    assert np.mean(accuracies) > 0.88


@pytest.mark.parametrize("rows", [20, 200])
def test_codes_few_values_and_constants(rows):
    x, y = survey(rows)
    model = AdditiveClassifier().fit(x, y)
    age, grade, *steps, constant = model.sizes_
    assert (grade, constant) == (4, 0)
    assert all(step <= 1 for step in steps)
    assert age == (10 if rows == 200 else 7)
    proba = model.predict_proba(survey(100, seed=1)[0])
    assert np.isfinite(proba).all()
    assert model.score(*survey(1000, seed=1)) > (0.75 if rows == 200 else 0.6)


def test_a_constant_column_changes_nothing():
    x, y = rings(50)
    more = np.column_stack([np.full(50, 3.0), x])
    unseen = np.column_stack([np.full(50, 9.0), x])
    expected = AdditiveClassifier().fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(AdditiveClassifier().fit(more, y).predict_proba(unseen), expected)


def test_nothing_but_constants_gives_the_frequencies():
    model = AdditiveClassifier().fit(np.ones((8, 2)), [0, 0, 0, 0, 0, 0, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[1, 1]]), [[0.75, 0.25]], atol=1e-6)


def test_units_do_not_matter():
    x, y = survey(80)
    units = np.array([1e-6, 1e6, *[3.0] * 7])
    expected = AdditiveClassifier().fit(x, y).predict_proba(x)
    np.testing.assert_allclose(AdditiveClassifier().fit(x * units, y).predict_proba(x * units), expected, atol=1e-6)


# Labels and weights


@pytest.mark.parametrize("labels", [["ant", "bee", "cat"], [3, 7, 20], [0.0, 1.0, 2.0]])
def test_labels_of_any_kind_and_number(labels):
    x, codes = rings(200, classes=3)
    y = np.array(labels)[codes]
    model = AdditiveClassifier().fit(x, y)
    proba = model.predict_proba(x)
    assert model.classes_.tolist() == labels
    assert model.coef_.shape[0] == 3
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict(x), np.array(labels)[proba.argmax(axis=1)])
    assert model.score(x, y) > 0.85


def test_one_class_is_certain():
    model = AdditiveClassifier().fit([[0.0], [1.0]], ["a", "a"])
    assert model.predict_proba([[5.0]]).tolist() == [[1.0]]
    assert model.predict([[5.0]]).tolist() == ["a"]


def test_far_away_it_still_gives_probabilities():
    for classes in (2, 3):
        model = AdditiveClassifier().fit(*rings(60, classes=classes))
        proba = model.predict_proba([[1e9, 1e9], [-1e9, 1e9], [-1e9, -1e9], [1e200, 0]])
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_a_weight_says_how_often_a_sample_counts():
    x, y = rings(60)
    weight = np.arange(60) % 3
    weighted = AdditiveClassifier().fit(x, y, sample_weight=weight)
    repeated = AdditiveClassifier().fit(np.repeat(x, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.predict_proba(x), repeated.predict_proba(x), atol=1e-3)
    assert np.abs(weighted.predict_proba(x) - AdditiveClassifier().fit(x, y).predict_proba(x)).max() > 0.01


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]])
def test_wrong_weights_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight has shape"):
        AdditiveClassifier().fit([[0.0], [1.0]], [0, 1], sample_weight=weight)


# As an estimator


@pytest.mark.parametrize("rows", [12, 60])
def test_it_is_quiet_and_always_the_same(rows, capfd):
    x, y = survey(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = []
        for seed in range(2):
            np.random.seed(seed)
            found.append(AdditiveClassifier().fit(x, y).predict_proba(x))
    np.testing.assert_array_equal(*found)
    assert capfd.readouterr() == ("", "")


def test_it_can_be_cloned_and_set():
    model = clone(AdditiveClassifier(splines=5)).set_params(lam=2.0)
    assert model.get_params() == {"splines": 5, "lam": 2.0, "ridge": 0.1}


@pytest.mark.slow
def test_it_is_all_that_scikit_learn_expects():
    check_estimator(AdditiveClassifier(), on_skip=None)


def test_another_width_is_refused():
    with pytest.raises(ValueError, match="X has 3 features, but AdditiveClassifier is expecting 2 features"):
        AdditiveClassifier().fit(*rings(20)).predict(np.zeros((1, 3)))


# In the zoo


def test_it_is_in_the_zoo():
    assert "additive" in MODELS
    (entry,) = [entry for entry in describe() if entry["name"] == "additive"]
    assert (entry["family"], entry["parameters"]) == ("additive", None)
    assert build("additive", (5,), 3, splines=4).get_params() == {"splines": 4, "lam": 0.6, "ridge": 0.1}


@pytest.mark.parametrize("settings", [{"splines": 1}, {"splines": 2.5}, {"lam": 0}, {"ridge": -1}, {"lam": "much"}])
def test_wrong_settings_are_told(settings):
    ((name, value),) = settings.items()
    with pytest.raises(SettingsError, match=re.escape(f"{name} = {value!r}; expected")):
        additive(3, **settings)


def test_without_pygam_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygam", None)
    with pytest.raises(ModelError, match=r"pip install '\.\[gam\]'"):
        additive(3)
    assert len(describe()) == len(MODELS)


# In a federation


def federation(**settings):
    x, y = rings(80, seed=3, classes=3)
    x = np.pad(x, ((0, 0), (0, 34))).reshape(-1, 1, 6, 6)
    test, truth = rings(100, seed=4, classes=3)
    people = [
        potluck.Participant("curves", "additive", (x[:30], y[:30])),
        potluck.Participant("tree", DecisionTreeClassifier(), (x[30:55], y[30:55])),
        potluck.Participant("net", mlp(0), (x[30:55], y[30:55])),
    ]
    public = np.pad(rings(60, seed=5)[0], ((0, 0), (0, 34))).reshape(-1, 1, 6, 6)
    tests = (np.pad(test, ((0, 0), (0, 34))).reshape(-1, 1, 6, 6), truth)
    return potluck.Federation(people, CoFED(), public=public, test=tests, **settings)


def test_it_takes_part_in_cofed_with_class_weights():
    rows = federation().run(1).rows()
    (own,) = [row for row in rows if row["participant"] == "curves"]
    assert own["weighted"]
    assert own["received"] > 0
    assert own["accuracy"] > 0.6


def test_a_resumed_run_equals_an_unbroken_one(tmp_path):
    unbroken = federation()
    rows = unbroken.run(3).rows()
    federation().run(2, run_dir=tmp_path)
    resumed = federation()
    agree(rows, resumed.run(3, run_dir=tmp_path, resume=True).rows(), 0)
    x = federation().participants["curves"].data.x
    one, other = (each.participants["curves"].predict_proba(x) for each in (unbroken, resumed))
    np.testing.assert_array_equal(one, other)


def test_it_is_kept_as_arrays():
    x, y = survey(40)
    model = AdditiveClassifier().fit(x, y)
    types = keeping.try_out(model, lambda m: m.fit(x, y), lambda m: m.predict_proba(x).tolist(), "curves")
    assert types == ["potluck.models.additive.AdditiveClassifier"]
    back = keeping.load_estimator(keeping.dump_estimator(model), AdditiveClassifier(), types)
    np.testing.assert_array_equal(back.predict_proba(x), model.predict_proba(x))
