"""FedSSA (Yi et al., "Semantic Similarity-based Aggregation", IJCAI 2024): heads averaged class by class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from potluck.core.payload import Payload, dtype_named
from potluck.core.requests import Exchange, Fit
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import by_reply_schema
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import Merger
from potluck.methods.head_sharing import HeadSharing, head_shape
from potluck.methods.windows import Part


def _ordered(classes: list[int]) -> list[int]:
    if classes != sorted(set(classes)):
        raise ValueError(f"{classes} is not in order, each once")
    return classes


Places = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1), AfterValidator(_ordered)]
"""Places in the label space, in order, each once."""


class FedSSA(HeadSharing):
    """Algorithm 1: a row of the head belongs to a class, and is averaged over those who have samples of the class.

    A participant receives the rows of its own classes and adds μ_t times its own: row ← global + μ_t · own, with
    μ_t = μ₀ cos(πt/2T) up to round T, t from 0, and 0 from then on; it trains everything, and sends those rows. A row
    that nobody sent stays. In the first round all have one head. The sum is not convex, as in the paper: 1.5 times the
    row where both are equal and μ_t is ½.

    Args:
        mu: μ₀, how much of the own row is added at first; by default 0.5, as in the authors' code.
        stable_after: T, the rounds after which nothing of it is; by default 2, as in the authors' code.
        convex: whether the row is (1 − μ_t) · global + μ_t · own instead; by default False.
        stale: whether the last rows of those who sit out count in the mean, as in the authors' code; by default False.
        aggregation: as in ``HeadSharing``.
        weighting: "uniform": everybody who has a class counts the same for it.
        batchnorm: as in ``HeadSharing``.
    """

    sends: ClassVar[Mapping[str, str]] = {
        **HeadSharing.sends,
        "greet": f"{HeadSharing.sends['greet']}, and of which labels it has samples",
        "rows": "the rows of its trained head for those labels; nothing of its extractor",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**HeadSharing.leaves, "rows": ("weights", "statistics")}

    mu: float = Field(0.5, ge=0, le=1)
    stable_after: int = Field(2, ge=1)
    convex: bool = False
    stale: bool = False
    weighting: Literal["uniform"] = "uniform"

    def introduction(self, me: Participant) -> dict[str, Any]:
        return {**super().introduction(me), "classes": classes_of(me).tolist()}

    def greeting(self, server: Server, sender: str) -> Schema:
        schema = super().greeting(server, sender)
        return replace(schema, facts={**schema.facts, "classes": Places})

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        classes = classes_of(me)
        me.state.update(classes=classes, rows={name: entry[classes] for name, entry in self.shared(me).items()})
        return None

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        self.fuse(me)
        yield Fit()
        classes = me.state["classes"]
        rows = {name: entry[classes] for name, entry in self.shared(me).items()}
        self.take(me, (yield Exchange("rows", Payload(rows))))
        me.state["round"] = me.round
        return None

    def take(self, me: Participant, reply: Payload) -> None:
        """Stores rows for the next round; at the start, loads the head."""
        if "rows" in me.state:
            me.state["rows"] = dict(reply.tensors)
        else:
            super().take(me, reply)

    def fuse(self, me: Participant) -> None:
        """Eq. 8 and 9: global rows, and a part of one's own."""
        t, head, classes = me.round - 1, self.shared(me), me.state["classes"]
        mu = self.mu * math.cos(math.pi * t / (2 * self.stable_after)) if t < self.stable_after else 0.0
        for name, rows in me.state["rows"].items():
            head[name][classes] = (1 - mu if self.convex else 1) * rows + mu * head[name][classes]
        super().take(me, Payload(head))

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """A row for each of one's classes."""
        return Schema.of(me.state["rows"])

    def classes(self, server: Server, sender: str) -> Tensor:
        """The places, in the label space, of the labels of which a participant has samples."""
        most, _ = head_shape(server)
        return torch.tensor([place for place in server.state["told"][sender]["classes"] if place < most])

    def rows_schema(self, server: Server, sender: str) -> Schema:
        """As many rows as the sender has classes."""
        count = len(self.classes(server, sender))
        layout = server.state["layouts"][sender]
        return Schema(
            {name: TensorSpec((count, *shape[1:]), dtype_named(kind)) for name, (kind, *shape) in layout.items()}
        )

    @exchange(rows_schema, reply=by_reply_schema)
    def rows(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Eq. 6: each class's mean row over those who have it."""
        old, last = server.state["global"], dict(server.state.get("last", {}))
        merger = Merger(self, server, old)
        for sender, payload in answers:
            if merger.add(sender, self._parts(server, sender, payload.tensors)) and self.stale:
                last[sender] = dict(payload.tensors)
        for sender in last.keys() - set(merger.senders):
            merger.take(sender, self._parts(server, sender, last[sender]))
        server.state.update({"global": {**old, **merger.results()}, "last": last})
        return self.replies(server, merger.senders)

    def _parts(self, server: Server, sender: str, rows: Mapping[str, Tensor]) -> list[Part]:
        at, weight = self.classes(server, sender), self.weight(server, sender)
        keys = self.keys(server, sender).items()
        return [Part(key, rows[name], weight, [at, *[0] * (rows[name].ndim - 1)]) for name, key in keys]

    def reply(self, server: Server, sender: str) -> Payload:
        classes = self.classes(server, sender)
        return Payload({name: entry[classes] for name, entry in self.entries(server, sender).items()})


def classes_of(me: Participant) -> Tensor:
    """The places of the labels of which a participant has samples."""
    return me.data.y.bincount().nonzero().squeeze(1)
