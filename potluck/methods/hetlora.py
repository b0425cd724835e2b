"""HetLoRA (Cho et al., 2024): adapters of different rank, padded with zeros, weighted by their size, pruned by rank."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context, task_loss
from potluck.core.payload import Payload
from potluck.core.requests import Fit, Fitted, Request
from potluck.core.schema import Schema
from potluck.federation.method import Steps
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.methods.adapter_pairs import Pairs, down, named, of_rank, paired, product, up
from potluck.methods.adapters import Adapters
from potluck.methods.averaging import MaskedMean
from potluck.methods.robust import NoMean


def fewer(rank: int, share: float) -> int:
    """⌊γ·r⌋, but never less than 1."""
    return max(1, math.floor(round(share * rank, 9)))


def tails(parameters: Mapping[str, Tensor], kept: Mapping[str, int]) -> Tensor:
    """Σ ‖B[:, k:]‖·‖A[k:]‖ over adapters, k their columns and rows that would be kept."""
    norms = [parameters[up(path)][:, k:].norm() * parameters[down(path)][k:].norm() for path, k in kept.items()]
    return torch.stack(norms).sum()


def decaying_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Section 3.2: the task's loss + λ times what the last rows and columns weigh."""
    loss: Tensor = task_loss(model, batch, context) + context["decay"] * tails(model.parameters, context["kept"])
    return loss


class HetLoRA(Adapters):
    """Section 3: rank self-pruning, then a mean of zero-padded adapters weighted by how much they say.

    A participant of rank r receives the first r rows of A and columns of B. It trains with a loss that pulls its last
    rows and columns to 0; where their weight fell below what it was when the training began, it lets them go for good:
    r becomes ⌊γ·r⌋. The server pads A and B with zeros and takes Σ p_k A_k and Σ p_k B_k, p_k in proportion to
    ‖B_k A_k‖, layer by layer; where all are 0, all count the same. Before the first mean everybody starts from an A of
    its own rank and B = 0. Scales α/r are equal, so that adapters can be added.

    The authors' code was not found. FlexLoRA's authors, who compare with it, weight by samples instead, and multiply
    each factor by √(α/r) before the mean.

    Args:
        scale: α/r, by which what an adapter adds is multiplied; by default 1.
        share: γ, the share of its rank that a participant keeps where it prunes itself; by default 0.99.
        decay: λ, the weight of the last rows and columns in the loss; by default 0.001.
        importance: what p_k is in proportion to: the "layer"'s ‖B_k A_k‖ (the default), that over all layers together
            ("adapter"), or the number of "samples".
        scaled: whether each factor is multiplied by √(α/r) before the mean, as by FlexLoRA's authors; by default False.
        rank: as in ``Adapters``; by default 8.
        ranks: as in ``Adapters``; by default none.
        targets: as in ``Adapters``; by default all layers but the last.
        head: as in ``Adapters``; by default "average".
        base: as in ``Adapters``; by default "same".
        weighting: how means of the head are weighted; by default "samples".
    """

    notes: ClassVar[Mapping[str, type]] = {"rank": float}

    robust: NoMean = None
    scale: float = Field(1.0, gt=0)
    share: float = Field(0.99, gt=0, le=1)
    decay: float = Field(1e-3, ge=0)
    importance: Literal["layer", "adapter", "samples"] = "layer"
    scaled: bool = False

    def alpha_of(self, rank: int) -> float:
        return self.scale * rank

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        me.state["ranks"] = {path: len(a) for path, (a, _) in self.adapters(me).items()}
        return None

    def training(self, me: Participant) -> Fit:
        context = {"decay": self.decay, "kept": self._kept(me)}
        return Fit(decaying_loss, context=context, freeze_norm_stats=True)

    def _kept(self, me: Participant) -> dict[str, int]:
        """The rank of each adapter if it is pruned."""
        return {path: fewer(rank, self.share) for path, rank in me.state["ranks"].items()}

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        before = tails(me.weights(), self._kept(me))
        fitted: Fitted = yield self.training(me)
        if tails(me.weights(), self._kept(me)) < before:
            me.state["ranks"] = self._kept(me)
            self._load(me, self.update(me))
        return fitted

    def _load(self, me: Participant, pairs: Pairs) -> None:
        """Loads adapters of smaller rank: the rest is 0, and adds nothing."""
        own = self.adapters(me)
        me.load(named({path: of_rank(pair, len(own[path][0])) for path, pair in pairs.items()}))

    def update(self, me: Participant) -> Pairs:
        return {path: of_rank(pair, me.state["ranks"][path]) for path, pair in self.adapters(me).items()}

    def round(self, me: Participant) -> Steps:
        yield from super().round(me)
        ranks = me.state["ranks"].values()
        return {"rank": sum(ranks) / len(ranks)}

    def take(self, me: Participant, reply: Payload) -> None:
        paths = [path for path in self.adapters(me) if down(path) in reply.tensors]
        pairs = {path: (reply[down(path)], reply[up(path)]) for path in paths}
        me.load({name: entry for name, entry in reply.tensors.items() if name not in named(pairs)})
        self._load(me, pairs)

    def adapter_schema(self, server: Server, sender: str) -> Schema:
        """A participant may have let go of some of the rank that it announced."""
        whole, ranks, specs = super().adapter_schema(server, sender), {}, {}
        for path in self.sent(server, sender):
            a, b = ((whole.tensors or {})[name] for name in (down(path), up(path)))
            left = f"rows of A in {path}"
            specs[down(path)] = replace(a, shape=(left, *a.shape[1:]))
            specs[up(path)] = replace(b, shape=(b.shape[0], left, *b.shape[2:]))
            ranks[left] = 1, self.rank_of(server, sender, path)
        return Schema({**(whole.tensors or {}), **specs}, lengths=ranks)

    def combine(self, server: Server, answers: Iterator[tuple[str, Pairs]]) -> None:
        """Σ p_k A_k and Σ p_k B_k of zero-padded adapters, Σ p_k = 1."""
        facts, ranks = server.state["told"], dict(server.state.get("ranks", {}))
        paths = list(facts[min(facts)]["scales"])
        most = {path: max(self.rank_of(server, sender, path) for sender in facts) for path in paths}
        weighted: dict[str, MaskedMean] = {}
        plain: dict[str, MaskedMean] = {}
        total = dict.fromkeys(paths, 0.0)
        padded: dict[str, Tensor] = {}
        for sender, pairs in answers:
            ranks[sender] = {path: len(a) for path, (a, _) in pairs.items()}
            importance = self.importance_of(server, sender, pairs)
            factors = {path: self._factor(server, sender, path) for path in pairs}
            padded = named({p: of_rank((a * factors[p], b * factors[p]), most[p]) for p, (a, b) in pairs.items()})
            for path in paths:
                total[path] += importance[path]
                for name in (down(path), up(path)):
                    weighted.setdefault(name, MaskedMean(padded[name].shape)).add(padded[name], importance[path])
                    plain.setdefault(name, MaskedMean(padded[name].shape)).add(padded[name])
        server.state["adapters"] = {
            name: (weighted if total[path] else plain)[name].result(padded[name])
            for path in paths
            for name in (down(path), up(path))
        }
        server.state["ranks"] = ranks

    def _factor(self, server: Server, sender: str, path: str) -> float:
        return math.sqrt(server.state["told"][sender]["scales"][path]) if self.scaled else 1.0

    def importance_of(self, server: Server, sender: str, pairs: Pairs) -> dict[str, float]:
        """By layer: what a participant's adapter counts in proportion to."""
        credibility = server.participant_weights[sender]
        if self.importance == "samples":
            return dict.fromkeys(pairs, self.samples(server, sender) * credibility)
        norms = {path: float(product(pair).norm()) for path, pair in pairs.items()}
        if self.importance == "adapter":
            norms = dict.fromkeys(norms, math.hypot(*norms.values()))
        return {path: norm * credibility for path, norm in norms.items()}

    def returned(self, server: Server, sender: str) -> Pairs:
        """The first rows and columns, as many as the participant has now."""
        if "adapters" not in server.state:
            return {}
        paths = server.state["told"][sender]["scales"]
        joined = {path: self.rank_of(server, sender, path) for path in paths}
        now = server.state["ranks"].get(sender, joined)
        return {path: of_rank(pair, now[path]) for path, pair in paired(server.state["adapters"], paths).items()}
