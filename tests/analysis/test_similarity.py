"""CKA by hand, and what it does not see."""

from __future__ import annotations

import pytest
import torch

from potluck.analysis import cka
from potluck.core.errors import DataError

DRAW = torch.Generator().manual_seed(0)
FEATURES = torch.randn(20, 6, generator=DRAW, dtype=torch.float64)


def test_turning_scaling_and_moving_change_nothing():
    turned, _ = torch.linalg.qr(torch.randn(6, 6, generator=DRAW, dtype=torch.float64))
    assert cka(FEATURES, 3 * FEATURES @ turned + 7) == pytest.approx(1)
    assert cka(FEATURES, FEATURES[torch.randperm(20, generator=DRAW)]) < 0.9


def test_by_hand():
    """Centred, x is (-1, 0, 1), y (-1, 2, -1) / 3 and x + y (-4, 2, 2) / 3: products of 0, and of 2² / (2 · 24 / 9)."""
    x, y = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[0.0], [1.0], [0.0]])
    assert cka(x, y) == pytest.approx(0)
    assert cka(x, x + y) == pytest.approx(0.75)


def test_widths_may_differ_and_nothing_is_like_nothing():
    assert 0 < cka(FEATURES, FEATURES[:, :2]) < 1
    assert cka(FEATURES, torch.ones(20, 3)) == 0
    assert cka(FEATURES.reshape(20, 2, 3), FEATURES) == pytest.approx(1)


def test_other_samples_are_told():
    with pytest.raises(DataError, match="CKA is of 20 and 19 rows"):
        cka(FEATURES, FEATURES[1:])
