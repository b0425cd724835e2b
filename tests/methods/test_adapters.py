"""What the methods with adapters share: who has them, what is frozen, what travels."""

from __future__ import annotations

import pytest
import torch
from torch import tensor

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import FedSALoRA, FlexLoRA
from potluck.methods.adapters import checksum
from potluck.models import adapted_layers, lora
from tests.low_rank import A, B, low_rank_people, state_of
from tests.tables import cnn, mlp, participants


def test_checksums_tell_weights_apart():
    one, other = {"w": tensor([1.0, 2.0]), "n": tensor(3)}, {"n": tensor(3), "w": tensor([1.0, 2.0])}
    assert checksum(one) == checksum(other) != checksum({**one, "n": tensor(4)})


def test_adapters_go_in_at_joining():
    people = low_rank_people(3)
    people[2] = potluck.Participant("p2", lora(mlp(0, 5), 1), (people[2].data.x, people[2].data.y), labels=range(3))
    potluck.Federation(people, FlexLoRA(rank=2, ranks={"p1": 3}), seed=1).run(0)
    assert [adapted_layers(p.model)["1"].rank for p in people] == [2, 3, 1]
    assert adapted_layers(people[1].model)["1"].scaling == 16 / 3


def test_what_is_frozen_stays():
    people = participants([cnn(0) for _ in range(3)])
    federation = potluck.Federation(people, FlexLoRA(rank=1), seed=1)
    federation.run(0)
    before = [state_of(person) for person in people]
    federation.run(2)
    for person, old in zip(people, before, strict=True):
        trained = person.network.trained_entries()
        for name, entry in person.weights().items():
            assert torch.equal(entry, old[name]) == (name not in trained), name


def test_only_adapters_and_the_head_travel():
    people = low_rank_people(2)
    rows = potluck.Federation(people, FlexLoRA(rank=2), seed=1).run(2).rows()
    own = people[0].weights()
    size = Payload({name: own[name] for name in (A, B, "3.weight", "3.bias")}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2} == {(size, size)}


def test_the_head_may_stay_at_home():
    people = low_rank_people(2)
    potluck.Federation(people, FlexLoRA(rank=2, head="local"), seed=1).run(1)
    one, other = (person.weights() for person in people)
    assert torch.equal(one[A], other[A])
    assert not torch.equal(one["3.weight"], other["3.weight"])


def test_networks_must_be_the_same_below():
    def people():
        return participants([mlp(0, 5), mlp(1, 5)])

    with pytest.raises(potluck.RequirementsError, match="p1 differs from p0: its frozen weights differ"):
        potluck.Federation(people(), FlexLoRA()).run(0)
    mine = people()
    federation = potluck.Federation(mine, FlexLoRA(base="sent"))
    federation.run(1)
    assert torch.equal(mine[0].weights()["1.base_layer.weight"], mine[1].weights()["1.base_layer.weight"])
    assert not any("base_layer" in key for key in federation.server.state["global"])


def test_most_decide_what_is_below():
    people = participants([mlp(0, 5), mlp(1, 5), mlp(0, 5)])
    with pytest.raises(potluck.RequirementsError, match="p1 does not fit the others: its frozen weights differ"):
        potluck.Federation(people, FlexLoRA()).run(0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scales": {"2": 1.0}}, "expected A and B at"),
        ({"scales": {"1": -1.0}}, "should be greater than 0"),
        ({"adapters": {A: ["float32", 2, 36], B: ["float32", 5, 3]}}, "expected A and B of one rank"),
        ({"frozen": ["9"]}, "it freezes '9', of which its layout says nothing"),
    ],
)
def test_what_is_told_must_fit_together(change, told):
    facts = {"samples": 1, "layout": {}, "frozen": [], "checksum": "", "scales": {"1": 1.0}}
    facts["adapters"] = {A: ["float32", 2, 36], B: ["float32", 5, 2]}
    schema = FlexLoRA().greeting(Server(0, {"a": 1.0}), "a")
    schema.check(Payload(facts=facts))
    with pytest.raises(potluck.PayloadError, match=told):
        schema.check(Payload(facts={**facts, **change}))


def test_adapters_must_be_at_the_same_layers():
    people = participants([mlp(0, 5), mlp(0, 6)])
    with pytest.raises(potluck.RequirementsError, match="p1 differs from p0: its adapters are at other layers"):
        potluck.Federation(people, FlexLoRA(base="sent")).run(0)


def test_who_sat_out_fetches_adapters_and_head():
    people = low_rank_people(3)

    def mostly(round, names, _):
        return names if round != 2 else names[:2]

    potluck.Federation(people, FedSALoRA(rank=2, head="average"), seed=1, participation=mostly).run(3)
    for name in (A, "3.weight"):
        assert torch.equal(people[0].weights()[name], people[2].weights()[name])
