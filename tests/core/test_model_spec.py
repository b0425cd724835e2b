"""How methods declare models."""

from __future__ import annotations

import pytest
from torch import nn

from potluck.core.errors import SettingsError
from potluck.core.model_spec import ModelSpec, specs_of


def test_a_builder_alone_is_a_declaration():
    spec = ModelSpec("cnn", classes=4)
    assert specs_of({"shared": "mlp", "critic": nn.Flatten, "other": spec}, "M") == {
        "shared": ModelSpec("mlp"),
        "critic": ModelSpec(nn.Flatten),
        "other": spec,
    }


@pytest.mark.parametrize("name", ["own", "a b", "a.b", "", "forward", "parameters", "training", 3])
def test_a_name_that_cannot_be_one_is_refused(name):
    with pytest.raises(SettingsError, match=r"M declares a model named .*; expected a plain word"):
        specs_of({name: "mlp"}, "M")


def test_what_is_no_declaration_is_refused():
    with pytest.raises(SettingsError, match=r"M declares models as \['mlp'\]; expected a dict"):
        specs_of(["mlp"], "M")
    for builder in (nn.Flatten(), None, 3):
        with pytest.raises(SettingsError, match=r"builder is .*; expected a callable that makes a network"):
            ModelSpec(builder)
