"""The layers of networks of one family, as names tell them."""

from __future__ import annotations

from potluck.core.architecture import layout_of
from potluck.methods.depth import LayerPlace, layers_of, place_of
from potluck.models import build
from tests.tables import SHAPE, deep_cnn


def layers(network):
    return [layer[0] for layer in layers_of(layout_of(network.state_dict()))]


def test_the_place_of_an_entry():
    assert place_of("layer3.1.conv2.weight") == LayerPlace("layer3", 1, "conv2.weight")
    assert place_of("blocks.7.norm.bias") == LayerPlace("blocks", 7, "norm.bias")
    assert place_of("fc.weight") == LayerPlace("fc", None, "weight")
    assert place_of("4.weight") == LayerPlace("", 4, "weight")


def test_blocks_are_layers():
    resnet = build("resnet14", SHAPE, 3, stem="small", width=2)
    blocks = ["layer1.0", "layer2.0", "layer3.0", "layer3.1", "layer4.0", "layer4.1"]
    assert layers(resnet) == ["conv1.weight", *(f"{block}.conv1.weight" for block in blocks), "fc.weight"]


def test_normalisation_belongs_to_the_layer_before():
    assert layers(deep_cnn(0, blocks=1)) == ["0.weight", "3.weight", "7.weight"]
    assert layers_of(layout_of(deep_cnn(0, blocks=1).state_dict()))[0][-1] == "1.num_batches_tracked"
