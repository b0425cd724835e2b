"""A spool gives back what was put in, to the bit, and takes no more disk than it may."""

from __future__ import annotations

import pytest
import torch

from potluck.core.errors import MergeError
from potluck.methods.spool import Spool


def test_tensors_come_back_as_they_were():
    tensors = [
        torch.randn(3, 5),
        torch.randn(4, dtype=torch.float64),
        torch.tensor(7),
        torch.tensor([True, False, True]),
        torch.randn(2, 2).to(torch.bfloat16),
        torch.zeros(0, 3),
        torch.randn(6, 4).T,
    ]
    spool = Spool()
    for tensor, spooled in [(tensor, spool.put(tensor)) for tensor in tensors]:
        found = spool.get(spooled)
        assert found.dtype == tensor.dtype
        assert torch.equal(found, tensor)


def test_a_full_spool_says_what_to_do():
    spool = Spool(budget=100)
    spool.put(torch.zeros(25))
    with pytest.raises(MergeError, match="norm-bound"):
        spool.put(torch.zeros(1))
