"""Joining with features of one width, and catching up with prototypes."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.methods import FedProto
from tests.tables import headed_cnn, mlp, participants


def test_widths_that_differ_are_told_with_their_owners():
    with pytest.raises(potluck.RequirementsError, match=r"p1 differs from p0: its features have 5 numbers.*`feature`"):
        potluck.Federation(participants([mlp(0), mlp(1, 5)]), FedProto()).run(1)


def test_a_layer_may_be_named():
    """Layer 1 of both puts out 5 numbers for each sample; what goes into the head is 5 and 9 wide."""
    models = [torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 5), mlp_head(h)).double() for h in (5, 9)]
    federation = potluck.Federation(participants(models), FedProto(feature="1"))
    federation.run(1)
    assert federation.participants["p0"].state["prototypes"].shape == (3, 5)


def mlp_head(hidden):
    return torch.nn.Sequential(torch.nn.Linear(5, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 3))


def test_who_sat_out_fetches_the_prototypes_of_the_others():
    chosen = {1: ["p0", "p1"], 2: ["p0"]}
    people = participants([mlp(0), headed_cnn(1)])
    federation = potluck.Federation(
        people, FedProto(), engine="serial", participation=lambda number, names, generator: chosen[number]
    )
    federation.run(2)
    current, late = federation.server.state["means"], people[1]
    assert not torch.equal(late.state["prototypes"], current)
    late.round = 3
    steps = FedProto().catch_up(late)
    asked = next(steps)
    assert asked.name == "fetch"
    with pytest.raises(StopIteration):
        steps.send(FedProto().fetch(federation.server, iter([("p1", asked.payload)])))
    assert torch.equal(late.state["prototypes"], current)


def test_who_took_part_fetches_nothing():
    people = participants([mlp(0), headed_cnn(1)])
    potluck.Federation(people, FedProto(), engine="serial").run(1)
    people[0].round = 2
    assert list(FedProto().catch_up(people[0])) == []
