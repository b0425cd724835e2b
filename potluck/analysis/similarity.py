"""How alike two networks see the same samples: centred kernel alignment (Kornblith et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from potluck.core.errors import DataError


def cka(ours: Tensor, theirs: Tensor) -> float:
    """Linear CKA of two networks' features of the same samples: from 0, unlike, to 1, alike up to turning and scaling.

    Args:
        ours: one network's features, a row for each sample; what is behind the first dimension is flattened.
        theirs: the other's, in the same order; they may have another width.
    """
    if len(ours) != len(theirs) or len(ours) < 2:
        raise DataError(f"CKA is of {len(ours)} and {len(theirs)} rows; expected as many of each, two at least.")
    one, other = (_centred_gram(features) for features in (ours, theirs))
    size = one.norm() * other.norm()
    return float((one * other).sum() / size) if size else 0.0


def _centred_gram(features: Tensor) -> Tensor:
    """The products of all pairs of rows, after the mean row was taken off."""
    rows = features.detach().flatten(1).to(torch.float64)
    rows = rows - rows.mean(0)
    return rows @ rows.T
