from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from potluck import Classification, DataError, Participant
from potluck.core.labels import UNLABELLED
from potluck.core.window import Window

X = np.arange(20.0).reshape(10, 2)
Y = [0, 1] * 5


def member(**settings):
    return Participant("clinic", DecisionTreeClassifier(), (X, Y), **settings)


def test_data_are_divided_by_the_seed_and_stay_as_they_were_brought():
    person = member(validation=0.2, preprocess=StandardScaler(), test=(X[:3], Y[:3]))
    one, same, other = (person.as_brought(seed) for seed in (1, 1, 2))
    assert torch.equal(one["validation"].x, same["validation"].x)
    assert not torch.equal(one["validation"].x, other["validation"].x)
    assert sorted([*one["data"].x[:, 0].tolist(), *one["validation"].x[:, 0].tolist()]) == X[:, 0].tolist()
    person.join(1, None)
    assert torch.equal(person.as_brought(1)["data"].x, one["data"].x)
    assert not torch.equal(person.data.x, one["data"].x), "its model reads what the transformer makes of them"
    assert torch.equal(person.as_brought(1)["test"].x, torch.from_numpy(X[:3]))


def test_validation_data_may_be_brought():
    person = member(validation=(X[:4], Y[:4]))
    assert len(person.data) == 10
    assert len(person.as_brought(3)["validation"]) == 4


def test_for_a_window_training_data_stay_in_order():
    found = member(validation=0.2, window=Window(size=2, step=1)).as_brought(0)
    assert found["data"].x[:, 0].tolist() == sorted(found["data"].x[:, 0].tolist())
    assert len(found["validation"]) == 2


def test_what_the_task_leaves_open_is_found_in_the_data():
    assert member().task == Classification((0, 1))
    unlabelled = Participant("clinic", DecisionTreeClassifier(), (X, None), labels=[0, 1])
    assert unlabelled.data.y.tolist() == [UNLABELLED] * 10
    with pytest.raises(DataError, match=r"clinic \(test\)"):
        member(test=(X[:2], [0, 7]))
