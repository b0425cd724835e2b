"""Sharing a linear head, whatever its name."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch import nn

import potluck
from potluck import Payload
from potluck.methods import FedGH
from potluck.methods.head_sharing import HeadSharing, head_of
from tests.tables import headed_cnn, mlp, participants


def joined(*models, **settings):
    people = participants(models, **settings)
    federation = potluck.Federation(people, FedGH(), seed=3, engine="serial")
    federation.run(1)
    return people


def test_heads_of_different_names_are_one():
    named = nn.Sequential(OrderedDict(body=nn.Sequential(nn.Flatten(), nn.Linear(36, 8)), out=nn.Linear(8, 3))).double()
    people = joined(mlp(0), headed_cnn(1), named)
    assert [head_of(me) for me in people] == ["3", "3", "out"]
    shared = [HeadSharing.shared(FedGH(), me) for me in people]
    for other in shared[1:]:
        torch.testing.assert_close(other, shared[0])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (mlp(1, 5), "p1 differs from p0: its model differs"),
        (nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(72, 3), nn.BatchNorm1d(3)).double(), "BatchNorm1d"),
    ],
)
def test_heads_that_cannot_be_one_are_told(other, told):
    with pytest.raises(potluck.RequirementsError, match=told):
        joined(mlp(0), other)


def test_a_head_of_several_layers_is_told():
    with pytest.raises(potluck.RequirementsError, match="head is 1, 3; expected one Linear layer"):
        joined(headed_cnn(0), headed_cnn(1), head=["1", "3"])


def test_only_the_head_travels_down():
    people = participants([mlp(0), headed_cnn(1)])
    rows = potluck.Federation(people, FedGH(), seed=3).run(2).rows()
    head = Payload({"weight": torch.zeros(3, 8).double(), "bias": torch.zeros(3).double()}).size
    assert {row["bytes_down"] for row in rows if row["round"] == 2} == {head}
