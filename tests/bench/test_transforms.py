"""The ten ways of writing a transform do the same."""

from __future__ import annotations

import pytest
import torch

from potluck.bench.transforms import DEVIATION, MEAN, WAYS


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
def test_each_way_normalises(make):
    x = torch.rand(4, 1, 3, 3)
    torch.testing.assert_close(make()(x), (x - MEAN) / DEVIATION)
    assert make() is not make() or callable(make())


def test_there_are_ten():
    assert len(WAYS) == 10
