"""Models that a method prepares: of a copy, with what is frozen held together, the same each time."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn

import potluck
from potluck import Fit, SettingsError
from potluck.federation.prepared_model import prepared
from potluck.models import lora
from tests.tables import agree, mlp, participants, weights_agree


def base(frozen=True):
    return mlp(0).requires_grad_(not frozen)


def test_a_model_that_was_built_for_the_federation_is_not_copied():
    model = base()
    assert prepared(model, lambda model: model, is_own=True) is model


def test_of_what_was_brought_a_copy_is_prepared_that_holds_the_frozen_weights_together():
    model = base()
    model[3].requires_grad_(True)
    made = prepared(model, lambda model: model, is_own=False)
    assert made is not model
    assert made[1].weight.data_ptr() == model[1].weight.data_ptr()
    assert made[3].weight.data_ptr() != model[3].weight.data_ptr()


def test_what_a_method_trains_after_all_gets_memory_of_its_own():
    model = base()
    made = prepared(model, lambda model: model.requires_grad_(True), is_own=False)
    for one, other in zip(made.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()


def test_a_model_of_another_kind_is_copied_whole():
    tree = DecisionTreeClassifier(max_depth=2)
    made = prepared(tree, lambda tree: tree.set_params(max_depth=3), is_own=False)
    assert (made.max_depth, tree.max_depth) == (3, 2)


class WithAdapters(potluck.Method):
    """Everybody trains adapters beside the layers of what it brought."""

    def prepare(self, me, model):
        return lora(model, 2, share_base=True)

    def round(self, me):
        yield Fit()


def test_many_may_bring_one_frozen_base(tmp_path):
    model = base()

    def played(engine="serial", rounds=2, **settings):
        federation = potluck.Federation(participants([model] * 3), WithAdapters(), seed=1, engine=engine, device="cpu")
        federation.run(rounds, **settings)
        return federation

    whole, stacked = played(), played("batched")
    agree(whole.history.rows(), stacked.history.rows(), 1e-9)
    weights_agree(whole.participants.values(), stacked.participants.values(), 1e-9)
    played(rounds=1, run_dir=tmp_path)
    resumed = played(run_dir=tmp_path, resume=True)
    weights_agree(whole.participants.values(), resumed.participants.values(), 0)
    for person in (*whole.participants.values(), *resumed.participants.values()):
        assert person.model[1].base_layer.weight.data_ptr() == model[1].weight.data_ptr()
        assert person.model[1].lora_B["default"].weight.abs().sum() > 0
    assert isinstance(model[1], nn.Linear)
    torch.testing.assert_close(model.state_dict(), mlp(0).state_dict(), rtol=0, atol=0)


def test_without_a_copy_one_object_has_one_owner():
    with pytest.raises(SettingsError, match="p0 and p1 bring the same model object"):
        potluck.Federation(participants([base()] * 2), potluck.methods.Local())


def test_a_builders_model_is_prepared_anew_in_each_federation():
    people = participants([partial(mlp, 0)])
    for _ in range(2):
        potluck.Federation(people, WithAdapters(), seed=1).run(1)
        assert people[0].network.trainable().keys() >= {"1.lora_A.default.weight"}
