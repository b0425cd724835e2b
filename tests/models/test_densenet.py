from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.errors import ModelError, SettingsError
from potluck.models.densenet import DEPTHS, densenet

KNOWN = {121: 7_978_856, 161: 28_681_000, 169: 14_149_480, 201: 20_013_928}


@pytest.mark.parametrize(("depth", "count"), KNOWN.items())
def test_parameters_are_as_many_as_is_known(depth, count):
    with torch.device("meta"):
        assert sum(p.numel() for p in densenet(depth, (3, 32, 32), 1000).parameters()) == count


def test_names_and_shapes_are_the_usual_ones():
    with torch.device("meta"):
        state = densenet(121, (3, 32, 32), 1000).state_dict()
    shapes = {
        "features.conv0.weight": (64, 3, 7, 7),
        "features.norm0.running_var": (64,),
        "features.denseblock1.denselayer1.norm1.weight": (64,),
        "features.denseblock1.denselayer2.conv1.weight": (128, 96, 1, 1),
        "features.denseblock4.denselayer16.conv2.weight": (32, 128, 3, 3),
        "features.transition1.conv.weight": (128, 256, 1, 1),
        "features.norm5.bias": (1024,),
        "classifier.weight": (1000, 1024),
    }
    assert {name: tuple(state[name].shape) for name in shapes} == shapes
    assert len(state) == 727


@pytest.fixture
def tiny(monkeypatch):
    """The same network with one layer in each block."""
    monkeypatch.setitem(DEPTHS, 13, (8, 4, (1, 1, 1, 1)))
    return 13


def test_a_layer_keeps_what_it_was_given_and_adds_to_it(tiny):
    network = densenet(tiny, (3, 32, 32), 10).eval()
    layer, x = network.features.denseblock1.denselayer1, torch.randn(2, 8, 4, 4)
    output = layer(x)
    assert output.shape == (2, 12, 4, 4)
    assert torch.equal(output[:, :8], x)
    made = layer.conv2(layer.norm2(layer.conv1(layer.norm1(x).relu())).relu())
    torch.testing.assert_close(output[:, 8:], made)


def test_the_stem_decides_which_images_are_large_enough(tiny):
    for stem, smallest in (("standard", 29), ("small", 8)):
        shape = (3, smallest, smallest)
        assert densenet(tiny, shape, 10, stem=stem).eval()(torch.zeros(2, *shape)).shape == (2, 10)
        with pytest.raises(ModelError, match=f"{stem} stem reads images of {smallest}×{smallest} pixels and up"):
            densenet(tiny, (3, smallest - 1, smallest), 10, stem=stem)


def test_the_first_weights_are_drawn_by_fan_in(tiny):
    torch.manual_seed(0)
    network = densenet(tiny, (3, 32, 32), 10)
    assert network.features.conv0.weight.std().item() == pytest.approx((2 / (3 * 49)) ** 0.5, rel=0.05)
    assert network.classifier.bias.eq(0).all()
    assert isinstance(network.relu, nn.ReLU)


def test_wrong_depths_are_told():
    with pytest.raises(SettingsError, match="depth = 100; expected one of 121, 161, 169, 201"):
        densenet(100, (3, 32, 32), 10)
    with pytest.raises(SettingsError, match="stem = 'tiny'"):
        densenet(121, (3, 32, 32), 10, stem="tiny")
