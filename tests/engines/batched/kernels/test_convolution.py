"""Convolutions of many networks at once are those of each."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from potluck.engines.batched.kernels.dispatch import StackedLayers

NETWORKS, SAMPLES = 3, 4


def test_one_network_on_many_inputs():
    """Not stacked weights, as of a companion that all participants share."""
    layer = nn.Conv2d(2, 3, 3).double()
    x = torch.randn(NETWORKS, SAMPLES, 2, 6, 6, dtype=torch.float64)
    with StackedLayers():
        found = vmap(layer)(x)
    torch.testing.assert_close(found, torch.stack([layer(one) for one in x]))


def test_gradients_with_respect_to_inputs():
    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1).double().requires_grad_(False)
    weights = torch.randn(NETWORKS, 3, 2, 3, 3, dtype=torch.float64)
    x = torch.randn(NETWORKS, SAMPLES, 2, 7, 6, dtype=torch.float64)

    def total(x, weight):
        return functional_call(layer, {"weight": weight}, (x,)).pow(3).sum()

    with StackedLayers():
        found = vmap(grad(total))(x, weights)
    torch.testing.assert_close(found, vmap(grad(total))(x, weights))


def test_second_derivatives_are_refused():
    layer = nn.Conv2d(1, 2, 3).double()
    x = torch.randn(NETWORKS, 2, 1, 6, 6, dtype=torch.float64)

    def slope(x):
        return grad(lambda y: layer(y).pow(2).sum())(x).pow(2).sum()

    with StackedLayers(), pytest.raises(RuntimeError, match="second derivatives"):
        vmap(grad(slope))(x)
