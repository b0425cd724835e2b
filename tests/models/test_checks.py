"""A builder's arguments: what is refused, and in which words."""

from __future__ import annotations

import pytest

from potluck.core.errors import ModelError, SettingsError
from potluck.models.checks import image_shape, one_of, one_shape, sizes


def test_one_of_a_few():
    assert one_of("depth", 18, (10, 18)) == 18
    with pytest.raises(SettingsError, match=r"^depth = 20; expected one of 10, 18\.$"):
        one_of("depth", 20, (10, 18))
    with pytest.raises(SettingsError, match=r"^stem = 'tiny'; expected one of 'standard', 'small'\.$"):
        one_of("stem", "tiny", ("standard", "small"))


def test_sizes_of_layers():
    assert sizes("hidden", [3, 1]) == (3, 1)
    assert sizes("hidden", []) == ()


@pytest.mark.parametrize("given", [[0], [3, -1], [2.5], ["3"], 3, None])
def test_sizes_are_whole_numbers_above_zero(given):
    with pytest.raises(SettingsError, match=r"^hidden = .*; expected whole numbers above 0\.$"):
        sizes("hidden", given)


def test_one_array_is_no_dict_of_several():
    assert one_shape("mlp", [3, 4]) == (3, 4)
    for check in (one_shape, image_shape):
        with pytest.raises(ModelError, match=r"^mlp reads one array; the inputs are several: ids, mask, kind\.$"):
            check("mlp", {"ids": (5,), "mask": (5,), "kind": (5,)})


def test_images_have_channels_height_and_width():
    assert image_shape("cnn", [3, 32, 16]) == (3, 32, 16)
    assert image_shape("cnn", (1, 4, 4), smallest=4) == (1, 4, 4)


@pytest.mark.parametrize("given", [(8, 8), (1, 2, 8, 8), (0, 8, 8), (1, 8, 0), ()])
def test_other_inputs_are_no_images(given):
    with pytest.raises(ModelError, match=r"^cnn reads images of shape \(channels, height, width\); the inputs have \("):
        image_shape("cnn", given)


@pytest.mark.parametrize("given", [(1, 3, 8), (1, 8, 3)])
def test_an_image_may_be_too_small_either_way(given):
    with pytest.raises(ModelError, match="cnn reads images of 4×4 pixels and up"):
        image_shape("cnn", given, smallest=4)
