"""Networks that a method declares: built, named, and several as one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier

import potluck
from potluck.core.errors import ModelError
from potluck.core.model_spec import ModelSpec
from potluck.federation.declared_models import NamedModels, built, together
from potluck.learners.network import Network
from tests.tables import made_data, mlp, participants


def net(classes):
    return mlp(None, 4, classes)


class Declares(potluck.Method):
    """Declares what it is told to."""

    declared: Any = None

    def models(self, me):
        return self.declared or {}

    def round(self, me):
        yield potluck.Fit()


def test_a_model_that_the_inputs_do_not_fit_is_told_with_its_name():
    texts = {"ids": torch.zeros(6, 5, dtype=torch.int64), "mask": torch.ones(6, 5)}
    reader = potluck.models.transformer((5,), 2, vocabulary=9, width=8, heads=2, layers=1)
    person = potluck.Participant("p0", reader, (texts, [0, 1] * 3))
    with pytest.raises(
        ModelError, match="p0: the model 'common', which the method declares, cannot be built: mlp reads"
    ):
        potluck.Federation([person], potluck.methods.FML())


def test_models_by_name_are_found_when_they_are_asked_for():
    asked = []
    models = NamedModels("p0", ("own", "shared"), lambda name: asked.append(name) or name.upper())
    assert list(models) == ["own", "shared"]
    assert len(models) == 2
    assert "shared" in models
    assert "other" not in models
    assert asked == []
    assert models["shared"] == "SHARED"
    with pytest.raises(ModelError, match=r"p0 has no model 'share'\. Did you mean 'shared'\? Known: own, shared"):
        models["share"]


def test_a_builder_gets_what_the_spec_says_or_its_partys_own():
    asked = []

    def noting(input_shape, classes):
        asked.append((input_shape, classes))
        return mlp(None)

    built(ModelSpec(noting), "a", "p0", 1, (2, 3), 4)
    built(ModelSpec(noting, classes=7, input_shape=(5,)), "a", "p0", 1, (2, 3), 4)
    assert asked == [((2, 3), 4), ((5,), 7)]


def test_what_is_no_network_is_refused():
    with pytest.raises(ModelError, match="p0: the builder of model 'a' made a DecisionTreeClassifier; expected a netw"):
        built(ModelSpec(DecisionTreeClassifier), "a", "p0", 1, (), 2)


def test_all_begin_alike_unless_it_says_otherwise():
    declared = {"shared": net, "apart": ModelSpec(net, same_start=False)}
    people = potluck.Federation(participants([mlp(0), mlp(1)]), Declares(declared=declared), seed=2).participants
    weights = {
        name: [person.models[name].weights()["1.weight"] for person in people.values()] for name in ("shared", "apart")
    }
    assert torch.equal(*weights["shared"])
    assert not torch.equal(*weights["apart"])
    assert not torch.equal(weights["shared"][0], weights["apart"][0])


def test_a_name_that_cannot_be_built_shows_before_anything_is_trained():
    with pytest.raises(potluck.SettingsError, match=r"There is no model 'mlpp'\. Did you mean 'mlp'"):
        potluck.Federation(participants([mlp(0)]), Declares(declared={"shared": "mlpp"}))


def test_nothing_is_left_of_another_federations_models():
    person = participants([mlp(0)])[0]
    potluck.Federation([person], Declares(declared={"shared": net}))
    assert list(person.models) == ["own", "shared"]
    potluck.Federation([person], Declares())
    assert list(person.models) == ["own"]
    assert "model shared" not in person.held


def test_several_are_one_as_long_as_they_are_the_same():
    parts, known = {"a": Network(mlp(0)), "b": Network(mlp(1))}, {}
    one = together(parts, ("a", "b"), known)
    assert together(parts, ("a", "b"), known) is one
    parts["b"] = Network(mlp(1))
    assert together(parts, ("a", "b"), known) is not one


def test_an_estimator_cannot_be_trained_together_with_a_network():
    tree = potluck.Participant("tree", DecisionTreeClassifier(), made_data(20, 0), labels=range(3))
    potluck.Federation([tree], Declares(declared={"shared": net}))
    with pytest.raises(ModelError, match="Model 'own' is a DecisionTreeClassifier; only networks are trained together"):
        tree.learners_for(("own", "shared"))
