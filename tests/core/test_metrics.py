"""Metrics by name: scikit-learn's numbers, or none, with a reason."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as theirs

from potluck.core.classification import Classification, MultiLabel
from potluck.core.errors import SettingsError
from potluck.core.metrics import (
    OF_LABELS,
    OF_VALUES,
    Graded,
    NoMetricError,
    checked,
    computed,
    less_is_better,
    metric_name,
    possible,
    readable,
)
from potluck.core.regression import Regression


def draw(seed, rows=30, labels=3):
    random = np.random.default_rng(seed)
    sure = random.dirichlet(np.ones(labels), rows)
    return random.integers(labels, size=rows), sure


@pytest.mark.parametrize("labels", [2, 3])
def test_they_are_scikit_learns(labels):
    truth, sure = draw(labels, labels=labels)
    said = sure.argmax(axis=1)
    tested = Graded(truth, said, sure)
    score, curve = (sure[:, 1], {}) if labels == 2 else (sure, {"multi_class": "ovr"})
    found = {name: OF_LABELS[name](tested) for name in OF_LABELS}
    assert found["accuracy"] == pytest.approx(theirs.accuracy_score(truth, said))
    assert found["balanced_accuracy"] == pytest.approx(theirs.balanced_accuracy_score(truth, said))
    assert found["f1_macro"] == found["macro_f1"] == pytest.approx(theirs.f1_score(truth, said, average="macro"))
    assert found["recall_micro"] == pytest.approx(theirs.recall_score(truth, said, average="micro"))
    assert found["jaccard_macro"] == pytest.approx(theirs.jaccard_score(truth, said, average="macro"))
    assert found["log_loss"] == found["loss"] == pytest.approx(theirs.log_loss(truth, sure))
    assert found["roc_auc"] == pytest.approx(theirs.roc_auc_score(truth, score, **curve))
    if labels == 2:
        assert found["average_precision"] == pytest.approx(theirs.average_precision_score(truth, score))


def test_of_several_labels_they_are_scikit_learns_too():
    random = np.random.default_rng(0)
    truth, sure = random.integers(2, size=(20, 3)), random.random((20, 3))
    said = (sure > 0.5).astype(int)
    tested = Graded(truth, said, sure)
    for name, function in [("roc_auc", theirs.roc_auc_score), ("average_precision", theirs.average_precision_score)]:
        assert OF_LABELS[name](tested) == pytest.approx(function(truth, sure))
    assert OF_LABELS["f1_macro"](tested) == pytest.approx(theirs.f1_score(truth, said, average="macro"))
    assert OF_LABELS["accuracy"](tested) == pytest.approx(theirs.accuracy_score(truth, said))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("r2", theirs.r2_score),
        ("mae", theirs.mean_absolute_error),
        ("mse", theirs.mean_squared_error),
        ("rmse", theirs.root_mean_squared_error),
        ("median_ae", theirs.median_absolute_error),
        ("mape", theirs.mean_absolute_percentage_error),
    ],
)
def test_metrics_of_values_are_scikit_learns(name, function):
    random = np.random.default_rng(1)
    truth, said = random.normal(size=(9, 2)), random.normal(size=(9, 2))
    assert OF_VALUES[name](Graded(truth, said)) == pytest.approx(function(truth, said))


def test_labels_that_do_not_occur_count_in_no_mean():
    """scikit-learn refuses them, or takes them for 0; in a federation they are usual."""
    truth, sure = draw(4, labels=4)
    truth = np.where(truth == 3, 0, truth)
    of_each = [theirs.roc_auc_score(truth == label, sure[:, label]) for label in range(3)]
    assert OF_LABELS["roc_auc"](Graded(truth, sure.argmax(axis=1), sure)) == pytest.approx(np.mean(of_each))


EMPTY = {
    "one class alone": (Classification((0, 1)), ["roc_auc"], [[0.4, 0.6], [0.7, 0.3]], [1, 1], "hold one class only"),
    "no probabilities": (Classification((0, 1)), ["log_loss"], [[1.0, 0.0], [0.0, 1.0]], [1, 0], "without probabilit"),
    "diverged": (Classification((0, 1)), ["log_loss"], [[math.nan, 0.3], [0.5, 0.5]], [1, 0], "diverged"),
    "never the second class": (Classification((0, 1)), ["average_precision"], [[0.6, 0.4]], [0], "no label whose"),
    "no label at all": (MultiLabel((0, 1)), ["f1_macro"], [[0.1, 0.2]], [[0, 0]], "no label occurs"),
    "one row": (Regression(1, "none"), ["r2"], [[1.0]], [[2.0]], "fewer than 2"),
    "diverged values": (Regression(1, "none"), ["mae"], [[math.inf]], [[2.0]], "diverged"),
}


@pytest.mark.parametrize("case", EMPTY)
def test_a_metric_that_cannot_be_is_empty_with_a_reason(case):
    task, names, answers, truth, reason = EMPTY[case]
    task = type(task)(*[getattr(task, "labels", ()) or 1], metrics=names)
    task = Regression(1, "none", metrics=names) if isinstance(task, Regression) else task
    found, reasons = task.measure(torch.tensor(answers), task.encode(np.asarray(truth), "p"))
    assert found == {names[0]: None}
    assert reason in reasons[names[0]]


def test_a_users_function_sees_what_its_user_knows():
    seen = []

    def mine(truth, said):
        seen.append((truth.tolist(), said.tolist()))
        return 0.25

    def sharp(truth, said, probabilities):
        return float(probabilities.max())

    task = Classification(("cat", "dog"), metrics=[mine, sharp, "accuracy"])
    found, _ = task.measure(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 0]))
    assert found == {"mine": 0.25, "sharp": pytest.approx(0.9), "accuracy": 0.5}
    assert seen == [(["cat", "cat"], ["cat", "dog"])]
    assert task.headline == "mine"


def test_a_function_that_fails_leaves_its_metric_empty():
    def failing(truth, said):
        raise RuntimeError("no idea")

    found, why = Classification((0, 1), metrics=[failing]).measure(torch.eye(2), torch.tensor([0, 1]))
    assert (found, why) == ({"failing": None}, {"failing": "RuntimeError: no idea"})


def test_a_value_that_is_not_finite_is_none():
    assert computed(lambda: math.nan) == (None, "it is nan")
    with pytest.raises(NoMetricError):
        Graded(np.zeros(1), np.zeros(1)).sure()


@pytest.mark.parametrize(
    ("given", "message"),
    [(["acuracy"], "holds 'acuracy'. Did you mean 'accuracy'"), (["r2", "r2"], "one twice"), ([3], "holds 3")],
)
def test_metrics_that_nobody_knows_are_an_error(given, message):
    with pytest.raises(SettingsError, match=message):
        checked(given, {**OF_LABELS, **OF_VALUES})


def test_a_metric_may_be_given_alone():
    assert checked("roc_auc", OF_LABELS) == ("roc_auc",)
    assert metric_name(theirs.cohen_kappa_score) == "cohen_kappa_score"


@pytest.mark.parametrize(("name", "less"), [("accuracy", False), ("rmse", True), ("pinball_loss", True), ("r2", False)])
def test_a_name_says_whether_less_is_better(name, less):
    assert less_is_better(name) is less


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [("accuracy", 0.5, "50.00%"), ("rmse", 12.3456789, "12.3457"), ("mse", 12345.678, "12345.7"), ("r2", None, "–")],
)
def test_values_are_shown_to_people(name, value, shown):
    assert readable(name, value) == shown


@pytest.mark.parametrize(
    ("name", "value", "can_be"),
    [
        ("accuracy", 0.0, True),
        ("accuracy", 1.0 + 1e-9, True),
        ("accuracy", 1.01, False),
        ("macro_f1", -0.1, False),
        ("loss", 1e6, True),
        ("loss", -0.5, False),
        ("r2", -1e9, True),
        ("r2", 1.5, False),
        ("rmse", -1.0, False),
        ("roc_auc", None, True),
        ("somebody's own", -1e300, True),
    ],
)
def test_what_a_metric_can_be(name, value, can_be):
    assert possible(name, value) == can_be


def test_log_loss_of_several_labels_by_hand():
    """One question for each label, of which the second one is never true here."""
    sure = np.array([[0.9, 0.2], [0.6, 0.5], [0.3, 0.1]])
    tested = Graded(np.array([[1, 0], [0, 0], [1, 0]]), (sure > 0.5).astype(int), sure)
    first = -(math.log(0.9) + math.log(0.4) + math.log(0.3)) / 3
    second = -(math.log(0.8) + math.log(0.5) + math.log(0.9)) / 3
    assert OF_LABELS["log_loss"](tested) == pytest.approx((first + second) / 2)


def test_the_truth_as_a_table():
    several, one = np.array([[1, 0], [0, 0]]), np.array([1, 0, 2])
    sure = np.full((3, 3), 1 / 3)
    assert Graded(several, several, sure[:2, :2]).indicators().tolist() == [[1, 0], [0, 0]]
    assert Graded(one, one, sure).indicators().tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
