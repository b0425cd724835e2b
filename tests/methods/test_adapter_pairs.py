"""Adapters as pairs of A and B."""

from __future__ import annotations

import torch
from torch import tensor

from potluck.methods.adapter_pairs import down, named, of_rank, paired, product, up
from potluck.models import lora
from tests.tables import mlp


def test_names_are_those_of_a_network_s_entries():
    own = lora(mlp(0, 5), 2).state_dict()
    pairs = paired(own, ["1"])
    assert [tuple(part.shape) for part in pairs["1"]] == [(2, 36), (5, 2)]
    assert set(named(pairs)) == {down("1"), up("1")}
    assert all(torch.equal(own[name], part) for name, part in named(pairs).items())


def test_adapters_are_cut_and_padded():
    pair = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[5.0, 6.0]])
    assert [part.tolist() for part in of_rank(pair, 1)] == [[[1, 2]], [[5]]]
    assert [part.tolist() for part in of_rank(pair, 3)] == [[[1, 2], [3, 4], [0, 0]], [[5, 6, 0]]]


def test_the_product_of_convolutions_is_a_matrix():
    a, b = torch.randn(2, 3, 3, 3), torch.randn(4, 2, 1, 1)
    torch.testing.assert_close(product((a, b)), (b.flatten(1).double() @ a.flatten(1).double()))
