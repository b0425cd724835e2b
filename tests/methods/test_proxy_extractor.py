from __future__ import annotations

import pytest
import torch

import potluck
from potluck.methods.proxy_extractor import proxy_extractor


def test_the_extractor_of_the_paper():
    assert sum(p.numel() for p in proxy_extractor((3, 32, 32)).parameters()) == 443
    for shape in ((3, 6, 6), (2, 9), (7,)):
        assert proxy_extractor(shape)(torch.randn(4, *shape)).shape == (4, *shape)
    with pytest.raises(potluck.ModelError, match="no extractor for inputs of"):
        proxy_extractor((2, 3, 4, 5))
