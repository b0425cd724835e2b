"""Networks that are a share of a whole one's width."""

import pytest
import torch

from potluck.core.errors import SettingsError
from potluck.models import build
from potluck.models.width import RATES, ScaledConv2d, as_rate, scaled


def test_heterofls_levels_halve_from_one_to_the_next():
    assert [as_rate(level) for level in "abcde"] == [1, 0.5, 0.25, 0.125, 0.0625] == list(RATES.values())


@pytest.mark.parametrize(("size", "rate", "expected"), [(64, 0.5, 32), (10, 0.25, 3), (30, 0.1, 3), (3, 0.0625, 1)])
def test_sizes_are_rounded_up_and_float_error_is_none(size, rate, expected):
    assert scaled(size, rate) == expected


@pytest.mark.parametrize("wrong", [0, 1.5, -0.5, "f", True, None])
def test_a_rate_that_is_none_is_told(wrong):
    with pytest.raises(SettingsError, match=r"rate = .*; expected a share above 0, up to 1, or one of a, b, c, d, e"):
        as_rate(wrong)


@pytest.mark.parametrize(
    ("name", "shape", "settings"),
    [("mlp", (1, 6, 6), {}), ("cnn", (3, 8, 8), {"norm": True, "scale": True}), ("resnet10", (3, 8, 8), {"width": 16})],
)
def test_every_entry_of_a_narrow_network_is_a_corner_of_the_whole_ones(name, shape, settings):
    whole, half = (build(name, shape, 4, rate=rate, **settings).state_dict() for rate in ("a", "b"))
    assert list(whole) == list(half)
    inner = 0
    for entry, values in half.items():
        assert all(short <= long for short, long in zip(values.shape, whole[entry].shape, strict=True))
        inner += values.shape != whole[entry].shape
    assert inner > 3
    assert build(name, shape, 4, rate="b", **settings)(torch.zeros(2, *shape)).shape == (2, 4)


def test_the_whole_network_is_the_one_without_a_rate():
    for name in ("mlp", "cnn", "resnet10"):
        torch.manual_seed(0)
        plain = build(name, (1, 8, 8), 3)
        torch.manual_seed(0)
        whole = build(name, (1, 8, 8), 3, rate=1.0)
        assert str(plain) == str(whole)
        assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), whole.parameters(), strict=True))


def test_a_scaled_convolution_divides_by_its_rate():
    layer = ScaledConv2d(0.25, 1, 1, 1)
    with torch.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    x = torch.full((1, 1, 1, 1), 3.0)
    assert layer.train()(x).item() == 28.0
    assert layer.eval()(x).item() == 28.0  # what was trained answers
    scaling = build("resnet10", (3, 8, 8), 2, width=8, rate="c", scale=True)
    kinds = {type(module) for module in scaling.modules() if isinstance(module, torch.nn.Conv2d)}
    assert kinds == {ScaledConv2d}
