from __future__ import annotations

import pytest
import torch

import potluck
from potluck.methods import FedPer
from potluck.methods.body_sharing import BodySharing
from tests.methods.plain import PLAN, begun
from tests.tables import cnn, made_data, mlp, participants, weights_agree


def test_the_last_layers_neither_travel_nor_change_hands():
    federation, _ = begun(BodySharing(), [cnn(0), cnn(1)])
    assert {"4.weight", "4.bias"}.isdisjoint(federation.server.state["layouts"]["p0"])
    one, other = federation.participants.values()
    assert torch.equal(one.weights()["0.weight"], other.weights()["0.weight"])
    assert torch.equal(other.weights()["4.weight"], cnn(1).state_dict()["4.weight"])


def test_more_layers_may_be_personal():
    federation, _ = begun(BodySharing(personal_layers=2), [mlp(0), mlp(1)])
    assert federation.server.state["layouts"]["p0"] == {}
    with pytest.raises(potluck.RequirementsError, match="- p0, p1: Sequential has 2 layers; asked for 3"):
        begun(BodySharing(personal_layers=3), [mlp(0), mlp(1)])


def test_label_spaces_and_heads_may_differ_where_heads_are_personal():
    def people():
        two = potluck.Participant("two", mlp(1, classes=2), made_data(12, 1, [0, 1]), plan=PLAN)
        return [*participants([mlp(0)], plan=PLAN), two]

    federation = potluck.Federation(people(), BodySharing())
    federation.run(1)
    one, other = (person.weights() for person in federation.participants.values())
    assert torch.equal(one["1.weight"], other["1.weight"])
    with pytest.raises(potluck.RequirementsError, match="it needs one label space"):
        potluck.Federation(people(), BodySharing(personal_layers=0))


def test_an_owner_may_name_the_head():
    people = participants([mlp(0), mlp(1)], plan=PLAN, head=("1", "3"))
    with pytest.raises(potluck.RequirementsError, match="- p0, p1: Sequential has no parameters beside its head, 1, 3"):
        potluck.Federation(people, FedPer())


def test_layerwise_bodies_are_averaged_over_those_who_have_the_layer():
    federation, _ = begun(BodySharing(aggregation="layerwise"), [mlp(0), cnn(1), mlp(2)])
    federation.run(1)
    people = federation.participants
    for name in ("1.weight", "1.bias"):
        assert torch.equal(people["p0"].weights()[name], people["p2"].weights()[name])
    with pytest.raises(AssertionError):
        weights_agree([people["p0"]], [people["p2"]], 0)
