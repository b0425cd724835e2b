"""The map between the features of a participant's own and the common model."""

from __future__ import annotations

import torch

import potluck
from potluck.methods import FedKD
from tests.tables import cnn, mlp, narrow_mlp, participants


def joined():
    people = participants([mlp(0), cnn(1, 3)])
    method = FedKD(common=narrow_mlp)
    potluck.Federation(people, method, engine="serial").run(1)
    return method, people


def test_the_map_is_as_wide_as_the_features():
    method, people = joined()
    assert [method.widths(me) for me in people] == [(4, 8), (4, 108)]
    assert [tuple(me.models["map"].weights()["0.weight"].shape) for me in people] == [(8, 4), (108, 4)]


def test_features_stand_before_the_heads():
    method, people = joined()
    assert method.feature_places(people[1]) == {"own": "input of 4", "common": "input of 3"}


def test_maps_stay_at_home_and_begin_differently():
    people = participants([mlp(0), mlp(0)])
    potluck.Federation(people, FedKD(common=narrow_mlp), engine="serial")
    first, second = (me.models["map"].weights()["0.weight"] for me in people)
    assert first.dtype == torch.float64
    assert not torch.equal(first, second)
