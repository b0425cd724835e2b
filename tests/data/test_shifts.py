"""Feature shifts: what is turned, added, coloured, worked out by hand."""

import numpy as np
import pytest

from potluck.core.errors import DataError, SettingsError
from potluck.data import SHIFTS, colour, digits, noise, rotation, shift


def test_the_first_participant_sees_no_rotation_and_the_last_a_whole_one():
    image = np.arange(12, dtype=np.float64).reshape(1, 1, 3, 4)
    np.testing.assert_allclose(rotation(image, 0, 5), image, atol=1e-12)
    np.testing.assert_allclose(rotation(image, 2, 3, degrees=180), image[:, :, ::-1, ::-1], atol=1e-9)
    square = np.arange(9, dtype=np.float64).reshape(1, 1, 3, 3)
    np.testing.assert_allclose(rotation(square, 1, 2, degrees=90)[0, 0], np.rot90(square[0, 0]), atol=1e-9)
    np.testing.assert_allclose(rotation(square, 1, 3, degrees=180)[0, 0], np.rot90(square[0, 0]), atol=1e-9)


def test_what_is_outside_of_a_picture_is_nothing_in_pictures_that_are_not_square_either():
    image = np.ones((1, 1, 2, 4))
    turned = rotation(image, 1, 2, degrees=90)
    np.testing.assert_allclose(turned[0, 0], [[0, 1, 1, 0], [0, 1, 1, 0]], atol=1e-9)


def test_noise_grows_from_none_to_so_many_deviations():
    x = np.random.default_rng(0).normal(scale=3, size=(4000, 5))
    np.testing.assert_array_equal(noise(x, 0, 3, std=0.5), x)
    for number, expected in ((1, 0.25), (2, 0.5)):
        added = noise(x, number, 3, std=0.5) - x
        assert added.std() == pytest.approx(expected * x.std(), rel=0.02)


def test_each_participant_has_its_own_colours():
    x = np.random.default_rng(0).uniform(size=(3, 3, 4, 4)) + 0.1
    factors = [colour(x, number, 4, strength=0.3) / x for number in range(4)]
    for own in factors:
        np.testing.assert_allclose(own, own[:1, :, :1, :1] + 0 * own)
        assert ((own >= 0.7) & (own <= 1.3)).all()
    assert not np.allclose(factors[0], factors[1])


@pytest.mark.parametrize("kind", list(SHIFTS))
def test_a_shift_keeps_the_type_and_depends_on_its_seed_alone(kind):
    x = (digits().x[:5] * 255).astype(np.uint8)
    seen = shift(kind, x, 2, 4, seed=1)
    assert (seen.shape, seen.dtype) == (x.shape, np.uint8)
    assert not np.array_equal(seen, x)
    np.testing.assert_array_equal(shift(kind, x, 2, 4, seed=1), seen)
    assert kind == "rotation" or not np.array_equal(shift(kind, x, 2, 4, seed=2), seen)
    assert shift(kind, x.astype(np.float32), 2, 4).dtype == np.float32


def test_mistakes_are_told():
    with pytest.raises(DataError, match=r"shape \(5, 64\); expected images"):
        shift("rotation", np.zeros((5, 64)), 0, 2)
    with pytest.raises(DataError, match="number=2 of 2 participants; expected 0 to 1"):
        shift("noise", np.zeros((5, 64)), 2, 2)
    with pytest.raises(SettingsError, match="There is no shift 'rotated'"):
        shift("rotated", np.zeros((5, 64)), 0, 2)
    with pytest.raises(SettingsError, match="'noise' has no setting 'sigma'"):
        shift("noise", np.zeros((5, 64)), 0, 2, sigma=1)
    with pytest.raises(DataError, match="expected numbers"):
        shift("noise", np.array([["a"]]), 0, 2)
