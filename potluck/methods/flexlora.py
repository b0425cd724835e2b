"""FlexLoRA (Bai et al., 2024): what adapters add is summed, and given back by SVD at each one's rank."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.payload import dtype_named
from potluck.federation.server import Server
from potluck.methods.adapter_pairs import Pairs, down, of_rank, product, up
from potluck.methods.adapters import Adapters
from potluck.methods.averaging import MaskedMean
from potluck.methods.robust import NoMean


def best_of_rank(whole: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """A = V_rᵀ and B = U_r Σ_r, whose product is nearest to a matrix; each column's largest value in U is positive."""
    u, s, v = torch.linalg.svd(whole, full_matrices=False)
    signs = u.gather(0, u.abs().argmax(dim=0, keepdim=True)).sign().flatten()
    return of_rank((v * signs[:, None], u * signs * s), rank)


class FlexLoRA(Adapters):
    """Section 3.2: ΔW = Σ (n_k/n)·(α/r_k)·B_k A_k = U Σ Vᵀ; a participant of rank r gets A = V_rᵀ, B = U_r Σ_r/(α/r).

    So no participant's rank limits what others learn. The paper leaves the scale α/r out of both; the authors' code has
    it. In the first round everybody begins as LoRA does, with B = 0.

    Args:
        alpha: α; by default 16, as in the authors' code.
        scaled: whether the scale α/r counts in the sum; by default True.
        rank: as in ``Adapters``; by default 8.
        ranks: as in ``Adapters``; by default none. The paper's are 8, 30 and 200.
        targets: as in ``Adapters``; by default all layers but the last.
        head: as in ``Adapters``; by default "average".
        base: as in ``Adapters``; by default "same".
        weighting: as in ``WeightSharing``; by default "samples".
    """

    robust: NoMean = None
    alpha: float = Field(16.0, gt=0)
    scaled: bool = True

    def alpha_of(self, rank: int) -> float:
        return self.alpha

    def combine(self, server: Server, answers: Iterator[tuple[str, Pairs]]) -> None:
        """The mean of what all adapters add, and its best parts of each rank that somebody has."""
        means: dict[str, MaskedMean] = {}
        last: dict[str, Tensor] = {}
        for sender, pairs in answers:
            for path, pair in pairs.items():
                last[path] = product(pair) * self._scale(server, sender, path)
                means.setdefault(path, MaskedMean(last[path].shape)).add(last[path], self.weight(server, sender))
        facts = server.state["told"]
        most = {path: max(self.rank_of(server, sender, path) for sender in facts) for path in means}
        parts = {path: best_of_rank(mean.result(last[path]), most[path]) for path, mean in means.items()}
        server.state["a"] = {path: a for path, (a, _) in parts.items()}
        server.state["b"] = {path: b for path, (_, b) in parts.items()}

    def _scale(self, server: Server, sender: str, path: str) -> float:
        return float(server.state["told"][sender]["scales"][path]) if self.scaled else 1.0

    def returned(self, server: Server, sender: str) -> Pairs:
        found = {}
        shapes = server.state["told"][sender]["adapters"]
        for path, whole in server.state.get("a", {}).items():
            a, b = of_rank((whole, server.state["b"][path]), self.rank_of(server, sender, path))
            b = b / self._scale(server, sender, path)
            found[path] = _like(a, shapes[down(path)]), _like(b, shapes[up(path)])
        return found


def _like(part: Tensor, entry: list[str | int]) -> Tensor:
    """A matrix in the type and shape of an adapter's part."""
    kind, *shape = entry
    return part.reshape([int(length) for length in shape]).to(dtype_named(str(kind)))
