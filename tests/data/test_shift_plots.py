"""The picture of a feature shift."""

import numpy as np
import pytest

from potluck.core.errors import DataError, SettingsError
from potluck.data import digits, plot_shift


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_row_of_images_for_every_participant(tmp_path, suffix):
    path = plot_shift("rotation", digits().x, 4, tmp_path / "deep" / f"shift.{suffix}", degrees=60)
    assert path.stat().st_size > 3000
    if suffix == "svg":
        assert path.read_text().count("<image") == 4 * 6


def test_colours_and_mistakes(tmp_path):
    x = np.random.default_rng(0).integers(256, size=(3, 3, 8, 8), dtype=np.uint8)
    assert plot_shift("colour", x, 2, tmp_path / "colour.png", images=2).exists()
    with pytest.raises(SettingsError, match=r"named 'shift.gif'; expected a name that ends in .pdf, .png or .svg"):
        plot_shift("colour", x, 2, tmp_path / "shift.gif")
    with pytest.raises(DataError, match="expected images of one or three channels"):
        plot_shift("noise", np.zeros((4, 7)), 2, tmp_path / "shift.png")
