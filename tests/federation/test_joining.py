from __future__ import annotations

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from potluck import Classification, ModelError
from potluck.federation.joining import COPIES, as_learner, field_of
from potluck.learners.estimator import Estimator
from potluck.learners.network import Network
from tests.tables import mlp, participants

TASK = Classification((0, 1, 2))


def test_what_can_be_brought_as_a_model():
    assert isinstance(as_learner(nn.Linear(2, 3), TASK, "p"), Network)
    assert isinstance(as_learner(DecisionTreeClassifier(), TASK, "p"), Estimator)
    with pytest.raises(ModelError, match="p: model is 3; expected a torch module, an object with fit and predict"):
        as_learner(3, TASK, "p")


def test_joining_again_begins_anew():
    (person,) = participants([lambda: mlp(None)])
    assert person.builds_its_model
    person.join(1, None)
    first = person.weights()
    person.state["kept"], person.round = 1, 7
    person.join(1, None)
    assert (person.state, person.round) == ({}, 0)
    assert all(torch.equal(entry, first[name]) for name, entry in person.weights().items())
    person.join(2, None)
    assert not torch.equal(person.weights()["1.weight"], first["1.weight"])


def test_how_much_memory_it_takes():
    (person,) = participants([mlp(0)])
    person.join(0, None)
    weights = sum(entry.numel() * entry.element_size() for entry in person.weights().values())
    data = sum(column.numel() * column.element_size() for column in person.data.columns.values())
    assert person.working_bytes == COPIES * weights + data


def test_models_that_a_method_declares_have_fields_of_their_own():
    assert field_of("common") != field_of("own")
