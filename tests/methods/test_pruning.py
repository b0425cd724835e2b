"""What goes first, how what is left travels, and what must not be read."""

from __future__ import annotations

import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import tensor

import potluck
from potluck.core.payload import Payload
from potluck.federation.server import Server
from potluck.methods import Hermes, LotteryFL
from potluck.methods.pruning import Sparse, packed, pruned, sparse, spread, unpacked
from tests.tables import cnn, made_data, participants


def test_the_weakest_go_until_enough_is_gone():
    strength, kept = torch.arange(10.0), torch.ones(10).bool()
    kept = pruned(strength, kept, 0.2, 0.5)
    assert kept.nonzero().flatten().tolist() == [2, 3, 4, 5, 6, 7, 8, 9]
    kept = pruned(strength, kept, 0.2, 0.5)
    assert int(kept.sum()) == 6  # ⌊0.8 · 8⌋
    for _ in range(2):
        kept = pruned(strength, kept, 0.2, 0.5)
        assert kept.nonzero().flatten().tolist() == [5, 6, 7, 8, 9]


def test_what_is_gone_does_not_come_back():
    kept = pruned(tensor([9.0, 1.0, 2.0, 3.0]), tensor([False, True, True, True]), 0.3, 0.9)
    assert kept.tolist() == [False, False, True, True]


def test_shares_are_not_spoilt_by_floats():
    """0.8 · 10 is 8, and (1 − 0.9) · 10 a little less than 1 in floats."""
    assert int(pruned(torch.arange(10.0), torch.ones(10).bool(), 1 - 0.8, 0.9).sum()) == 8
    assert int(pruned(torch.arange(10.0), torch.ones(10).bool(), 0.99, 0.9).sum()) == 1


def test_masks_travel_as_bits():
    mask = torch.rand(3, 7) < 0.5
    assert packed(mask).shape == (3,)
    assert torch.equal(unpacked(packed(mask), (3, 7)), mask)


def test_only_what_is_kept_travels():
    entries = {"w": tensor([[1.0, 2.0], [3.0, 4.0]]), "b": tensor([5.0])}
    payload = sparse(entries, {"w": tensor([False, True])})
    assert payload["w"].tolist() == [[3, 4]]
    assert payload["b"].tolist() == [5]
    assert payload["kept/w"].tolist() == [0b01000000]


def test_masks_of_filters_spread():
    assert spread(tensor([True, False]), torch.zeros(2, 3, 1, 1)).shape == (2, 1, 1, 1)


def test_as_many_values_as_bits():
    values = Sparse.of({"w": torch.zeros(1), "kept/w": torch.zeros(1, dtype=torch.uint8)})
    schema = Sparse(values.tensors, sizes={"w": 2})
    schema.check(Payload({"w": torch.zeros(1), "kept/w": packed(tensor([True, False]))}))
    with pytest.raises(potluck.PayloadError, match="it keeps 2 of 'w' and sends 1"):
        schema.check(Payload({"w": torch.zeros(1), "kept/w": packed(tensor([True, True]))}))


def test_validation_data_are_needed():
    with pytest.raises(potluck.RequirementsError, match="it needs validation data, and these have none: p0, p1"):
        potluck.Federation(participants([cnn(0), cnn(1)]), LotteryFL())


@pytest.mark.parametrize("method", [Hermes, LotteryFL])
@pytest.mark.parametrize(
    ("odd", "labels", "told"),
    [
        (DecisionTreeClassifier(), range(3), "these are no torch modules: p1"),
        (cnn(1, width=5), range(3), "p1"),
        (cnn(1, classes=4), range(4), "p1"),
    ],
)
def test_networks_must_be_alike(method, odd, labels, told):
    people = [
        potluck.Participant(name, model, made_data(12, 0), labels=own, validation=0.25)
        for name, model, own in (("p0", cnn(0), range(3)), ("p1", odd, labels))
    ]
    with pytest.raises(potluck.RequirementsError, match=told):
        potluck.Federation(people, method())


@pytest.mark.parametrize("name", ["b", "nothing"])
def test_only_matrices_can_be_pruned(name):
    schema = LotteryFL().greeting(Server(0, {"a": 1.0}), "a")
    layout = {"w": ["float32", 2, 2], "b": ["float32", 2]}
    schema.check(Payload(facts={"samples": 1, "layout": layout, "prunable": ["w"]}))
    with pytest.raises(potluck.PayloadError, match=f"it would prune '{name}'; expected a matrix or kernel"):
        schema.check(Payload(facts={"samples": 1, "layout": layout, "prunable": [name]}))
