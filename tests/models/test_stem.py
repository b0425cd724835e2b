"""The first layers: what they leave of an image."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.errors import SettingsError
from potluck.models.stem import first_layers


@pytest.mark.parametrize(("kind", "side", "count"), [("standard", 8, 4), ("small", 32, 3)])
def test_the_standard_stem_leaves_a_quarter_and_the_small_one_all(kind, side, count):
    layers = first_layers(kind, 3, 5)
    assert len(layers) == count
    assert nn.Sequential(*layers)(torch.zeros(2, 3, 32, 32)).shape == (2, 5, side, side)


@pytest.mark.parametrize("kind", ["standard", "small"])
def test_the_convolution_has_no_bias_since_batchnorm_takes_it_away(kind):
    convolution, norm, *_ = first_layers(kind, 3, 5)
    assert convolution.bias is None
    assert isinstance(norm, nn.BatchNorm2d)


def test_there_is_no_other_stem():
    with pytest.raises(SettingsError, match="stem = 'none'; expected one of 'standard', 'small'"):
        first_layers("none", 3, 5)
