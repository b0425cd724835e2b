from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.errors import SettingsError
from potluck.models.mlp import UNITS, mlp, random_mlp


def widths(module):
    return [(layer.in_features, layer.out_features) for layer in module.modules() if isinstance(layer, nn.Linear)]


def test_the_default_is_the_network_of_mhat():
    """Section 4.1: 784-256-64-10 with tanh, about 2·10⁵ parameters."""
    network = mlp((1, 28, 28), 10)
    assert widths(network) == [(784, 256), (256, 64), (64, 10)]
    assert [type(layer) for layer in network] == [nn.Flatten, nn.Linear, nn.Tanh, nn.Linear, nn.Tanh, nn.Linear]
    assert sum(p.numel() for p in network.parameters()) == 784 * 256 + 256 + 256 * 64 + 64 + 64 * 10 + 10


@pytest.mark.parametrize("shape", [(14,), (1, 8, 8), (3, 32, 32)])
def test_any_input_shape_is_read(shape):
    assert mlp(shape, 5, hidden=(8,), activation="relu")(torch.zeros(2, *shape)).shape == (2, 5)


def test_without_hidden_layers_it_is_linear():
    assert widths(mlp((14,), 2, hidden=())) == [(14, 2)]


def test_random_ones_are_as_in_the_paper():
    drawn = [widths(random_mlp((4,), 3, seed=seed)) for seed in range(40)]
    assert {len(layers) - 1 for layers in drawn} == {2, 3}
    assert {units for layers in drawn for _, units in layers[:-1]} == set(UNITS)


def test_the_seed_decides_the_layers():
    assert widths(random_mlp((4,), 3, seed=5)) == widths(random_mlp((4,), 3, seed=5))
    torch.manual_seed(1)
    first = random_mlp((4,), 3)
    torch.manual_seed(1)
    again = random_mlp((4,), 3)
    for name, entry in first.state_dict().items():
        assert torch.equal(entry, again.state_dict()[name])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "tanhh"}, r"activation = 'tanhh'; expected one of 'tanh', 'relu'"),
        ({"hidden": (8, 0)}, r"hidden = \(8, 0\); expected whole numbers above 0"),
        ({"hidden": 8}, r"hidden = 8; expected whole numbers"),
    ],
)
def test_wrong_settings_are_told(settings, message):
    with pytest.raises(SettingsError, match=message):
        mlp((4,), 2, **settings)
