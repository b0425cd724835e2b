from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.errors import ModelError, SettingsError
from potluck.models.resnet import DEPTHS, resnet

KNOWN = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}


def parameters(depth, classes):
    with torch.device("meta"):
        return sum(p.numel() for p in resnet(depth, (3, 32, 32), classes).parameters())


@pytest.mark.parametrize(("depth", "count"), KNOWN.items())
def test_parameters_are_as_many_as_is_known(depth, count):
    assert parameters(depth, 1000) == count


def test_parameters_of_fedin_are_as_many_as_its_table_4_says():
    """12.28 million on average over the five depths, at 10 classes."""
    counts = [parameters(depth, 10) for depth in (10, 14, 18, 22, 26)]
    assert sum(counts) / len(counts) == pytest.approx(12.288e6, rel=1e-4)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_depth_counts_convolutions_and_the_linear_layer(depth):
    with torch.device("meta"):
        network = resnet(depth, (3, 32, 32), 10)
    main = [n for n, m in network.named_modules() if isinstance(m, nn.Conv2d) and "downsample" not in n]
    assert len(main) + 1 == depth


def test_names_and_shapes_are_the_usual_ones():
    with torch.device("meta"):
        small, large = resnet(18, (3, 32, 32), 1000).state_dict(), resnet(50, (3, 32, 32), 1000)
    shapes = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_mean": (64,),
        "layer1.0.conv1.weight": (64, 64, 3, 3),
        "layer2.0.downsample.0.weight": (128, 64, 1, 1),
        "layer2.0.downsample.1.num_batches_tracked": (),
        "layer4.1.bn2.bias": (512,),
        "fc.weight": (1000, 512),
    }
    assert {name: tuple(small[name].shape) for name in shapes} == shapes
    assert len(small) == 122
    assert "layer1.0.downsample.0.weight" not in small
    assert list(small)[:3] == ["conv1.weight", "bn1.weight", "bn1.bias"]
    assert list(small)[-2:] == ["fc.weight", "fc.bias"]
    assert tuple(large.state_dict()["layer1.0.downsample.0.weight"].shape) == (256, 64, 1, 1)
    assert len(large.state_dict()) == 320
    block = large.get_submodule("layer2.0")
    assert (block.conv1.stride, block.conv2.stride) == ((1, 1), (2, 2))


def test_the_first_weights_are_drawn_by_fan_out():
    torch.manual_seed(0)
    network = resnet(10, (3, 32, 32), 10)
    assert network.layer3[0].conv2.weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)
    assert network.bn1.weight.eq(1).all()
    assert network.bn1.bias.eq(0).all()


def test_a_block_adds_its_input_to_what_its_convolutions_make():
    block = resnet(50, (3, 32, 32), 10).layer1[1].eval()
    nn.init.zeros_(block.bn3.weight)
    x = torch.randn(2, 256, 4, 4)
    assert torch.equal(block(x), x.relu())


def test_the_stem_decides_what_is_left_of_small_images():
    x = torch.randn(2, 3, 32, 32)
    for stem, side in (("standard", 1), ("small", 4)):
        network = resnet(10, (3, 32, 32), 10, stem=stem).eval()
        features = nn.Sequential(*list(network)[:-3])(x)
        assert features.shape == (2, 512, side, side)
        assert network(x).shape == (2, 10)
    assert "maxpool" not in dict(network.named_children())
    assert (network.conv1.kernel_size, network.conv1.stride) == ((3, 3), (1, 1))


def test_wrong_settings_are_told():
    with pytest.raises(SettingsError, match="depth = 20; expected one of 10, 14, 18"):
        resnet(20, (3, 32, 32), 10)
    with pytest.raises(SettingsError, match="stem = 'tiny'; expected one of 'standard', 'small'"):
        resnet(18, (3, 32, 32), 10, stem="tiny")
    with pytest.raises(ModelError, match="resnet18 reads images"):
        resnet(18, (28, 28), 10)
