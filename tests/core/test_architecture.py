from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from potluck.core.architecture import Architecture
from tests.tables import cnn, mlp


class Activated(nn.Module):
    def __init__(self, activation, scale=1.0):
        super().__init__()
        self.layer, self.activation, self.scale = nn.Linear(2, 2), activation, scale

    def forward(self, x):
        return self.scale * self.activation(self.layer(x))


def test_networks_that_differ_in_weights_only_are_alike():
    assert Architecture(cnn(0)) == Architecture(cnn(1))


def test_the_mode_does_not_matter():
    assert Architecture(cnn(0).eval()) == Architecture(cnn(0).train())


def test_shapes_and_types_matter():
    kinds = [cnn(0), cnn(0, width=5), mlp(0), cnn(0, dtype=torch.float32)]
    assert len({Architecture(module) for module in kinds}) == len(kinds)


def test_attributes_that_no_repr_shows_matter():
    """Two modules with equal shapes and equal repr may still compute different things."""
    assert repr(Activated(torch.tanh)) == repr(Activated(F.relu))
    kinds = [Activated(torch.tanh), Activated(F.relu), Activated(torch.tanh, scale=2.0), nn.Linear(2, 2)]
    assert len({Architecture(module) for module in kinds}) == len(kinds)
    assert Architecture(Activated(F.relu)) == Architecture(Activated(F.relu))


def test_frozen_parameters_matter():
    assert Architecture(mlp(0)) != Architecture(mlp(0).requires_grad_(False))


def test_an_attribute_nobody_can_compare_makes_a_module_unique():
    assert Architecture(Activated(lambda x: x)) != Architecture(Activated(lambda x: x))
    odd = Activated(F.relu)
    odd.extra = object()
    twin = Activated(F.relu)
    twin.extra = object()
    assert Architecture(odd) != Architecture(twin)
    assert Architecture(odd) == Architecture(odd)
