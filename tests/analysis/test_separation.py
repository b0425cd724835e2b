"""Groups that part have a high silhouette, groups that mix have none."""

from __future__ import annotations

import pytest
import torch

from potluck.analysis import embed, separation
from potluck.core.errors import DataError

DRAW = torch.Generator().manual_seed(0)
FEATURES = torch.randn(40, 5, generator=DRAW)
GROUPS = ["a", "b"] * 20


def test_apart_and_mixed():
    apart = FEATURES + 30 * torch.tensor([group == "a" for group in GROUPS]).float().unsqueeze(1)
    assert separation(apart, GROUPS) > 0.6
    assert abs(separation(FEATURES, GROUPS)) < 0.2


def test_the_same_seed_is_the_same_plane():
    assert (embed(FEATURES) == embed(FEATURES)).all()
    assert embed(FEATURES).shape == (40, 2)


def test_too_little_is_told():
    with pytest.raises(DataError, match="3 rows"):
        embed(FEATURES[:3])
    with pytest.raises(DataError, match="1 groups"):
        separation(FEATURES, ["a"] * 40)
