"""How far groups of features part: a plane that keeps neighbours (t-SNE), and the silhouette of the groups in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from potluck.core.errors import DataError


def embed(features: Tensor, seed: int = 0, perplexity: float = 30.0) -> NDArray[np.float64]:
    """A place in the plane for each row, by scikit-learn's t-SNE.

    Args:
        features: a row for each sample; what is behind the first dimension is flattened.
        seed: what the start derives from; by default 0.
        perplexity: how many neighbours count; by default 30, and fewer where there are not three times as many rows.
    """
    from sklearn.manifold import TSNE

    if len(features) < 4:
        raise DataError(f"There are {len(features)} rows to place in a plane; expected four at least.")
    rows = features.detach().flatten(1).double().cpu().numpy()
    neighbours = min(perplexity, (len(rows) - 1) / 3)
    found = TSNE(perplexity=neighbours, init="pca", random_state=seed).fit_transform(rows)
    return np.asarray(found, dtype=np.float64)


def separation(features: Tensor, groups: Sequence[str], seed: int = 0) -> float:
    """The silhouette of groups in the plane of ``embed``: near 1 where they part, 0 where they mix, below it if wrong.

    Args:
        features: a row for each sample.
        groups: the group of each.
        seed: as in ``embed``.
    """
    from sklearn.metrics import silhouette_score

    if len(groups) != len(features) or not 1 < len(set(groups)) < len(groups):
        raise DataError(
            f"{len(features)} rows have {len(set(groups))} groups; expected two at least, and fewer than rows."
        )
    return float(silhouette_score(embed(features, seed), list(groups)))
