from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.errors import ModelError, SettingsError
from potluck.models.cnn import TABLE_1, cnn, cofed_cnn, random_cnn


def channels(module):
    return tuple(layer.out_channels for layer in module.modules() if isinstance(layer, nn.Conv2d))


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 1, 5), (1, 1, 1)])
@pytest.mark.parametrize("widths", [(4,), (4, 6), (4, 6, 8, 8)])
def test_small_images_are_read_too(shape, widths):
    assert cnn(shape, 7, channels=widths)(torch.zeros(2, *shape)).shape == (2, 7)


def test_each_layer_is_convolution_relu_and_pooling():
    network = cnn((3, 32, 32), 10, channels=(24, 40))
    names = ["conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "flatten", "fc"]
    assert [name for name, _ in network.named_children()] == names
    assert network.fc.in_features == 40 * 8 * 8


def test_the_ten_of_table_1():
    assert [channels(cofed_cnn(number, (3, 32, 32), 10)) for number in range(1, 11)] == list(TABLE_1.values())
    assert channels(cofed_cnn(10, (3, 32, 32), 10)) == (48, 56, 96)
    assert channels(cofed_cnn(7, (3, 32, 32), 10)) == (32, 32)


def test_random_ones_stay_in_the_range_of_table_1():
    drawn = [channels(random_cnn((1, 8, 8), 3, seed=seed)) for seed in range(60)]
    assert {len(layers) for layers in drawn} == {2, 3}
    for layer, seen in enumerate([{20, 24, 32, 40, 48}, {32, 40, 48, 56}, {56, 80, 96}]):
        assert {layers[layer] for layers in drawn if layer < len(layers)} == seen


def test_the_seed_decides_the_layers():
    assert channels(random_cnn((1, 8, 8), 3, seed=9)) == channels(random_cnn((1, 8, 8), 3, seed=9))
    assert len({channels(random_cnn((1, 8, 8), 3)) for _ in range(20)}) > 1


def test_wrong_settings_are_told():
    with pytest.raises(SettingsError, match="number = 11; expected one of 1, 2"):
        cofed_cnn(11, (1, 8, 8), 3)
    with pytest.raises(SettingsError, match="channels is empty"):
        cnn((1, 8, 8), 3, channels=())
    with pytest.raises(ModelError, match=r"images of shape \(channels, height, width\); the inputs have \(64,\)"):
        cnn((64,), 3)
