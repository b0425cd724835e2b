"""Everybody's data together, and models on the data of others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck import Federation, Participant
from potluck.comparison.sharing import as_read_by, cross_evaluation, pool
from potluck.core.classification import Classification
from potluck.core.errors import RequirementsError
from potluck.core.regression import Regression
from potluck.core.samples import Samples
from potluck.methods import Local
from tests.tables import PLAN


class Always:
    """Answers one label, whatever it is asked."""

    def __init__(self, label=0):
        self.label = label

    def fit(self, x, y):
        return self

    def predict(self, x):
        return np.full(len(x), self.label)


def person(name, labels, model=None, rows=4, width=3, **more):
    y = np.repeat(labels, rows)
    x = np.arange(len(y) * width, dtype=np.float32).reshape(len(y), width) + labels[0]
    return Participant(name, model or Always(labels[0]), (x, y), plan=PLAN, **more)


def test_pooled_data_are_everybodys_as_far_as_their_labels_are_known():
    pooled = pool([person("a", [0, 1]), person("b", [1, 2]), person("c", [0, 1, 2])], seed=0)
    assert [len(each.data) for each in pooled] == [4 + 4 + 4 + 4 + 4, 20, 28]
    own = [torch.bincount(each.data.y).tolist() for each in pooled]
    assert own == [[8, 12], [12, 8], [8, 12, 8]]


def test_pooled_data_hold_no_validation_data():
    people = [person("a", [0, 1], validation=0.25), person("b", [0, 1])]
    pooled = pool(people, seed=5)
    assert [len(each.data) for each in pooled] == [6 + 8] * 2
    people[0].join(5, None)
    assert torch.equal(pooled[0].validation.x, people[0].validation.x)
    held_back = {tuple(row) for row in people[0].validation.x.tolist()}
    assert len(held_back & {tuple(row) for row in people[0].data.x.tolist()}) == 0
    assert [tuple(row) for row in pooled[0].data.x.tolist()].count(next(iter(held_back))) <= 1


def test_inputs_of_several_shapes_are_not_pooled():
    with pytest.raises(RequirementsError, match=r"a has shape \(3,\), b has shape \(2,\)"):
        pool([person("a", [0, 1]), person("b", [0, 1], width=2)], seed=0)


def test_a_pooled_federation_is_played():
    test = (np.zeros((4, 3), dtype=np.float32), np.array([0, 1, 2, 2]))
    history = Federation(pool([person("a", [0, 1]), person("b", [1, 2])], 0), Local(), test=test).run(1)
    assert [row["accuracy"] for row in history.final.rows] == [0.5, 1 / 3]


def test_labels_that_a_model_does_not_know_are_left_out():
    samples = person("a", [0, 1]).data
    assert as_read_by(samples, Classification((0, 1)), Classification((0, 1))) is samples
    assert as_read_by(samples, Classification((0, 1)), Classification((1, 2))).y.tolist() == [0] * 4
    assert as_read_by(samples, Classification((0, 1)), Classification((2, 3))) is None


def test_everybodys_model_on_everybodys_test_data_by_hand():
    def test(*y):
        return np.zeros((len(y), 3), dtype=np.float32), np.array(y)

    people = [
        person("a", [0, 1], test=test(0, 0, 1, 1)),
        person("b", [1, 2], test=test(1, 2, 2, 2)),
        person("c", [3, 4], test=test(3, 4)),
    ]
    federation = Federation(people, Local())
    federation.run(1)
    found = cross_evaluation(federation)
    shown = {name: {owner: metrics["accuracy"] for owner, metrics in row.items()} for name, row in found.items()}
    assert shown == {
        "a": {"a": 0.5, "b": 0.0, "c": None},
        "b": {"a": 1.0, "b": 0.25, "c": None},
        "c": {"a": None, "b": None, "c": 0.5},
    }


def test_values_are_read_in_ones_own_scale():
    samples = Samples({"x": torch.zeros(2, 1), "y": torch.tensor([[0.0], [1.0]], dtype=torch.float64)})
    found = as_read_by(samples, Regression(scale=(10.0, 2.0)), Regression(scale=(0.0, 4.0)))
    assert found.y.tolist() == [[2.5], [3.0]]
