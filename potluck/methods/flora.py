"""FLoRA (Wang et al., 2024): adapters are stacked, so that their sum is exact, and merged into the network."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field

from potluck.core.architecture import layout_of
from potluck.core.payload import LazyReplies, Payload, dtype_named
from potluck.core.requests import Fitted, Request
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.adapter_pairs import Pairs, down, named, paired, product, up
from potluck.methods.adapters import Adapters
from potluck.methods.robust import NoMean
from potluck.methods.weight_sharing import schema_of

MOST_RANK = 2**16
"""How large the rank of all participants' adapters may be together."""
ADDED = "added/"
"""What the names begin with of all that has been added to layers so far."""


class FLoRA(Adapters):
    """Section 3: [B_1 … B_K] and [p_1 A_1; …; p_K A_K], whose product is Σ p_k B_k A_k without cross terms.

    Each round everybody begins with new adapters (A random, B = 0) on the network as it is by then. The server stacks
    what all have trained, p_k on one of the factors, by samples, with the scales α/r folded in, and everybody adds the
    product to its frozen weights. One that sat out fetches all that has been added so far. Ranks may differ.

    The authors' code counts only the first participant in the FedIT that it compares with: a misspelt name.

    Args:
        scale: α/r; by default 2, as in the authors' code.
        rank: as in ``Adapters``; by default 16. The authors' mixed ranks are 64, 32, 16, 16, 8, 8, 4, 4, 4, 4.
        ranks: as in ``Adapters``; by default none.
        targets: as in ``Adapters``; by default all layers but the last.
        head: as in ``Adapters``; by default "average".
        base: as in ``Adapters``; by default "same".
        weighting: as in ``WeightSharing``; by default "samples".
    """

    sends: ClassVar[Mapping[str, str]] = {
        **Adapters.sends,
        "fetch": "that it sat out, and asks for all that has been added so far",
    }

    robust: NoMean = None
    scale: float = Field(2.0, gt=0)
    rank: int = Field(16, ge=1)

    def alpha_of(self, rank: int) -> float:
        return self.scale * rank

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        me.load(named(self.fresh(me)))
        fitted: Fitted = yield self.training(me)
        return fitted

    def fresh(self, me: Participant) -> Pairs:
        """New adapters: A as LoRA draws it, B = 0."""
        found = {}
        for path, (a, b) in self.adapters(me).items():
            bound = 1 / math.sqrt(a[0].numel())
            drawn = torch.rand(a.shape, generator=me.generator(f"adapter of {path}"), dtype=torch.float64)
            found[path] = ((2 * drawn - 1) * bound).to(a.dtype), torch.zeros_like(b)
        return found

    def take(self, me: Participant, reply: Payload) -> None:
        """Adds what all have learned to the frozen weights, and takes the head."""
        adapters, own, news = self.adapters(me), me.weights(), dict(reply.tensors)
        added = dict(me.state.get("added", {}))
        for path, (_, b) in adapters.items():
            before = added.get(path, torch.zeros((), dtype=torch.float64))
            if (whole := news.pop(f"{ADDED}{path}", None)) is not None:
                added[path] = whole.double()
            elif up(path) in news:
                added[path] = before + product((news.pop(down(path)), news.pop(up(path))))
            if path in added:
                name = f"{path}.base_layer.weight"
                news[name] = (own[name] + (added[path] - before).view_as(own[name])).to(own[name].dtype)
                news[up(path)] = torch.zeros_like(b)
        me.load(news)
        me.state["added"] = added

    def most_rank(self, own: int) -> int:
        """Adapters of all participants are stacked."""
        return MOST_RANK

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """Stacked adapters, or for those who sat out what has been added to each layer."""
        if sent.tensors:
            return super().reply_schema(me, sent)
        pairs = self.adapters(me)
        added = {f"{ADDED}{path}": TensorSpec((len(b), a[0].numel()), a.dtype) for path, (a, b) in pairs.items()}
        averaged = schema_of(layout_of(self.averaged(me))).tensors or {}
        return Schema({**averaged, **added}, optional=set(added))

    @exchange(lambda self, server, sender: Schema())
    def fetch(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Sends all that has been added so far to those that sat out."""

        def missed(sender: str) -> Payload:
            own = server.state["told"][sender]["adapters"]
            added = server.state.get("added", {}).items()
            kinds = {path: dtype_named(str(own[down(path)][0])) for path, _ in added}
            return Payload(self.means_of(server, sender) | {f"{ADDED}{p}": e.to(kinds[p]) for p, e in added})

        return LazyReplies([sender for sender, _ in answers], missed)

    def combine(self, server: Server, answers: Iterator[tuple[str, Pairs]]) -> None:
        """The stack of all adapters; p and the scale are on A."""
        received = dict(answers)
        weights = {sender: self.weight(server, sender) for sender in received}
        total, added, stack = sum(weights.values()), dict(server.state.get("added", {})), {}
        for path in next(iter(received.values())):
            parts = []
            for sender in sorted(received):
                a, b = received[sender][path]
                parts.append((a * (weights[sender] / total * server.state["told"][sender]["scales"][path]), b))
            stack[path] = torch.cat([a for a, _ in parts]), torch.cat([b for _, b in parts], dim=1)
            added[path] = added.get(path, 0) + product(stack[path])
        server.state.update(stack=named(stack), added=added)

    def returned(self, server: Server, sender: str) -> Pairs:
        return paired(server.state["stack"], server.state["told"][sender]["scales"])
