"""Which parameters a name stands for."""

from __future__ import annotations

import pytest

from potluck.core.errors import ModelError
from potluck.core.groups import Group, Update, chosen, names_of, within
from potluck.core.plan import Plan

PARAMETERS = dict.fromkeys(("fc.weight", "fc.bias", "fc2.weight", "body.0.weight", "token"))


def test_a_layer_stands_for_all_parameters_in_it_and_no_other():
    assert list(chosen(PARAMETERS, ("fc",))) == ["fc.weight", "fc.bias"]
    assert list(chosen(PARAMETERS, ("body", "token"))) == ["body.0.weight", "token"]
    assert list(chosen(PARAMETERS, ["fc.bias"])) == ["fc.bias"]
    assert chosen(PARAMETERS, None) == PARAMETERS
    assert not within("fc2.weight", ("fc",))


def test_one_name_need_not_be_in_a_list():
    assert names_of("fc") == ("fc",)
    assert names_of(name for name in ("a", "b")) == ("a", "b")
    assert Group("fc", Plan()).names == ("fc",)
    assert Group(["fc", "token"], Plan()).names == ("fc", "token")
    assert Update(len).only is None


def test_a_name_without_parameters_is_an_error_that_shows_what_there_is():
    with pytest.raises(ModelError, match=r"in 'fc3'\. Did you mean 'fc'\? Known: body, body\.0, "):
        chosen(PARAMETERS, ("fc3",))


def test_frozen_layers_may_be_named_among_others_but_not_alone():
    assert list(chosen(PARAMETERS, ("fc", "base"), ["base.weight"])) == ["fc.weight", "fc.bias"]
    with pytest.raises(ModelError, match="no trainable parameter in 'base'"):
        chosen(PARAMETERS, ("base",), ["base.weight"])
    with pytest.raises(ModelError, match="no trainable parameter in 'bases'"):
        chosen(PARAMETERS, ("fc", "bases"), ["base.weight"])
