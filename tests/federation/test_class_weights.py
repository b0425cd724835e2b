from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.class_weight import compute_class_weight
from torch import nn

from potluck import Classification, Federation, Participant, PerPosition, Plan, Regression, Samples, SettingsError
from potluck.federation.class_weights import balanced, with_class_weights
from potluck.methods import Local
from tests.tables import agree, made_data, mlp

Y = torch.tensor([0, 0, 0, 1, 3])
TASK = Classification(("a", "b", "c", "d"))


def weights(setting, y=Y, **columns):
    return with_class_weights(Samples({"x": torch.zeros(len(y), 1), "y": y, **columns}), TASK, setting, "clinic")


def test_balanced_is_what_scikit_learn_calls_so():
    expected = compute_class_weight("balanced", classes=np.array([0, 1, 3]), y=Y.numpy())
    assert balanced(Y, 4)[[0, 1, 3]].tolist() == pytest.approx(expected.tolist())
    assert weights("balanced").columns["weight"].tolist() == pytest.approx(expected[[0, 0, 0, 1, 2]].tolist())


def test_labels_may_be_given_weights_of_their_own():
    assert weights({"a": 0.5, "d": 3}).columns["weight"].tolist() == [0.5, 0.5, 0.5, 1.0, 3.0]
    numbered = Samples({"x": torch.zeros(2, 1), "y": torch.tensor([0, 1])})
    found = with_class_weights(numbered, Classification((7, 8)), {"8": 2.0}, "clinic")
    assert found.columns["weight"].tolist() == [1.0, 2.0], "keys in a file are text"


def test_they_count_beside_the_samples_own_weights():
    own = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert weights({"d": 3.0}, weight=own).columns["weight"].tolist() == [1.0, 2.0, 3.0, 4.0, 15.0]


def test_what_has_no_label_counts_as_it_did():
    assert weights({"a": 5.0}, torch.tensor([0, -1])).columns["weight"].tolist() == [5.0, 1.0]


def test_of_a_label_at_each_position_they_are_of_positions():
    y = torch.tensor([[0, 0, 0], [1, -1, -1]])
    samples = Samples({"x": torch.zeros(2, 3), "y": y, "weight": torch.tensor([1.0, 2.0])})
    found = with_class_weights(samples, PerPosition((0, 1)), "balanced", "clinic").columns["weight"]
    third = 4 / (2 * 3)
    assert found.tolist() == [[pytest.approx(third)] * 3, [4.0, 2.0, 2.0]]


@pytest.mark.parametrize("engine", ["serial", "batched"])
def test_rare_pixels_may_count_as_much_as_others(engine):
    """A constant input says nothing, so that each answers by how much its labels count in its data."""
    x, y = torch.zeros(8, 1, 4, 4, dtype=torch.float64), torch.zeros(8, 4, 4, dtype=torch.int64)
    y[:, 0, 0] = 1

    def probability(weight):
        plan = Plan(optimizer="sgd", lr=1.0, epochs=20, class_weight=weight)
        people = [Participant(n, nn.Conv2d(1, 2, 1).double(), (x, y), task=PerPosition(), plan=plan) for n in "ab"]
        Federation(people, Local(), engine=engine).run(1)
        return people[0].predict_proba(x[:1])[0, 0, 0, 1]

    assert probability(None) == pytest.approx(1 / 16, abs=0.02)
    assert probability("balanced") == pytest.approx(1 / 2, abs=0.02)


def test_without_them_samples_stay_as_they_are():
    samples = Samples({"x": torch.zeros(1, 1), "y": torch.zeros(1)})
    assert with_class_weights(samples, TASK, None, "clinic") is samples


def test_what_cannot_be_weighed_is_told():
    with pytest.raises(SettingsError, match="clinic: class_weight names a label 'e'"):
        weights({"e": 1.0})
    with pytest.raises(SettingsError, match=r"a task of Regression has not one class each. Give samples weights"):
        with_class_weights(Samples({"x": torch.zeros(1, 1)}), Regression(), "balanced", "clinic")


@pytest.mark.parametrize("wrong", ["balance", {"a": -1.0}, {"a": float("nan")}, {"a": 0.0, "b": 0.0}])
def test_weights_are_finite_and_not_below_0(wrong):
    with pytest.raises(SettingsError, match="class_weight"):
        Plan(class_weight=wrong)


def test_networks_and_trees_are_trained_with_them_on_each_engine():
    def run(engine, class_weight):
        plan = Plan(class_weight=class_weight, batch_size=8)
        people = [Participant(f"p{i}", mlp(i), made_data(30, i), plan=plan) for i in range(2)]
        people.append(Participant("tree", DecisionTreeClassifier(max_depth=1), made_data(30, 3), plan=plan))
        return Federation(people, Local(), test=made_data(30, 9), engine=engine, seed=1).run(1).rows()

    found = run("serial", {0: 5.0})
    agree(found, run("batched", {0: 5.0}), 1e-9)
    plain = run("serial", None)
    assert all(mine["loss"] != other["loss"] for mine, other in zip(found, plain, strict=True))
