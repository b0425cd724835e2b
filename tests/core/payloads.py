"""A payload for tests, and when two are the same."""

from __future__ import annotations

import torch

from potluck import Payload


def sample():
    return Payload(
        {"weight": torch.arange(6.0).reshape(2, 3), "count": torch.tensor(3), "seen": torch.tensor([True, False])},
        {"labels": ["cat", "dog"], "samples": 12},
    )


def same(one, other):
    assert set(one.tensors) == set(other.tensors)
    for name, tensor in one.tensors.items():
        assert tensor.dtype == other[name].dtype
        assert tensor.shape == other[name].shape
        assert torch.equal(tensor, other[name])
    assert one.facts == other.facts
