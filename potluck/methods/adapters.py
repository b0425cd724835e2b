"""Low-rank adapters in a federation: only they, and the head, are trained and sent; the network below is frozen.

A participant may bring a network that has adapters (``potluck.models.lora``); others get them at joining. Of each
adapter A (rank × inputs) and B (outputs × rank) travel, of a convolution with their kernels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from potluck.core.architecture import Layout, difference, layout_of
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload
from potluck.core.requests import Fit, Fitted
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.agreement import agreed
from potluck.federation.method import Needs, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.adapter_pairs import Pairs, down, named, paired, up
from potluck.methods.fedavg import Averaging
from potluck.methods.layout_fact import layout_fact
from potluck.methods.weight_sharing import Merge, schema_of
from potluck.models.lora import adapted_layers, lora

Scales = dict[str, Annotated[float, Field(gt=0, le=2**20)]]
"""α/r by the path of a layer."""


def checksum(entries: Mapping[str, Tensor]) -> str:
    """What tells different weights apart."""
    found = hashlib.sha256()
    for name in sorted(entries):
        found.update(name.encode())
        found.update(entries[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


class Adapters(Averaging):
    """Joining with adapters, and a round in which they travel. The head is averaged over those who have it.

    Args:
        rank: r, the rank of everybody's adapters; by default 8.
        ranks: name → r, for those whose rank is another; by default none. In a real federation bring adapters instead.
        targets: which layers get adapters, by path or the last part of it; by default all but the last.
        head: whether the last layer, which is trained whole, is averaged ("average", the default) or stays at home
            ("local").
        base: "same" (the default) where everybody brings the same frozen weights, which a checksum tells, or "sent", so
            that all take over those of the first by name at joining.
        weighting: as in ``WeightSharing``; by default "samples".

    A subclass says what α is (``alpha_of``), how adapters are put together (``combine``), and who gets what of it
    (``returned``).
    """

    needs = Needs(torch_module=True, one_label_space=True, tasks="any")
    late_joining: ClassVar[bool] = False
    sends: ClassVar[Mapping[str, str]] = {
        **Averaging.sends,
        "greet": "how many samples it has, the shapes and scales of its adapters, the names, shapes and types of the "
        "other weights it shares, and a checksum of the frozen ones, once",
        "weights": "its trained adapters and head (no head, if head is local)",
    }

    rank: int = Field(8, ge=1)
    ranks: dict[str, int] = Field(default_factory=dict)
    targets: list[str] | None = None
    head: Literal["average", "local"] = "average"
    base: Literal["same", "sent"] = "same"
    aggregation: Literal["layerwise"] = "layerwise"
    batchnorm: Literal["average"] = "average"
    weighting: Literal["samples", "uniform"] = "samples"

    def alpha_of(self, rank: int) -> float:
        """α of adapters of a rank; what they add is multiplied by α/r."""
        raise NotImplementedError

    def combine(self, server: Server, answers: Iterator[tuple[str, Pairs]]) -> None:
        """Puts everybody's adapters together, as they arrive."""
        raise NotImplementedError

    def returned(self, server: Server, sender: str) -> Pairs:
        """The adapters that a participant gets."""
        raise NotImplementedError

    def prepare(self, me: Participant, model: Any) -> Any:
        """Puts adapters in, where there are none yet."""
        if not isinstance(model, nn.Module) or adapted_layers(model):
            return model
        rank = self.ranks.get(me.name, self.rank)
        return lora(model, rank, self.targets, self.alpha_of(rank))

    def adapters(self, me: Participant) -> Pairs:
        """A participant's adapters."""
        return paired(me.weights(), adapted_layers(me.model))

    def averaged(self, me: Participant) -> dict[str, Tensor]:
        """What is averaged entry by entry: all that is trained besides adapters, unless it stays at home."""
        if self.head == "local":
            return {}
        names = me.network.trained_entries() - set(named(self.adapters(me)))
        return {name: entry for name, entry in me.weights().items() if name in names}

    def frozen(self, me: Participant) -> dict[str, Tensor]:
        """What nobody trains."""
        trained = me.network.trained_entries()
        return {name: entry for name, entry in me.weights().items() if name not in trained}

    def shared(self, me: Participant) -> dict[str, Tensor]:
        """What is averaged, and what all take over at joining."""
        return self.averaged(me) | (self.frozen(me) if self.base == "sent" else {})

    def introduction(self, me: Participant) -> dict[str, Any]:
        frozen, same = self.frozen(me), self.base == "same"
        return {
            **super().introduction(me),
            "adapters": layout_of(named(self.adapters(me))),
            "scales": {path: float(layer.scaling) for path, layer in adapted_layers(me.model).items()},
            "frozen": [] if same else sorted(frozen),
            "checksum": checksum(frozen) if same else "",
        }

    def greeting(self, server: Server, sender: str) -> Schema:
        own = {"adapters": layout_fact(server.budget), "scales": Scales, "frozen": list[str], "checksum": str}
        return AdapterFacts(facts={**super().greeting(server, sender).facts, **own})

    def owners(self, server: Server, senders: Sequence[str]) -> dict[str, list[str]]:
        """Sees to it that all have adapters at the same layers of the same network."""
        facts = server.state["told"]
        agreed(server, {sender: _but_the_rank(facts[sender]) for sender in senders}, _elsewhere)
        agreed(server, {sender: facts[sender]["checksum"] for sender in senders}, _another_base)
        self.forget(server, server.refused)
        return super().owners(server, [sender for sender in senders if sender not in server.refused])

    def training(self, me: Participant) -> Fit:
        """What is frozen stays as it is, statistics of normalisation layers as well."""
        return Fit(freeze_norm_stats=True)

    def update(self, me: Participant) -> Pairs:
        """The adapters that a participant sends after training."""
        return self.adapters(me)

    def upload(self, me: Participant, fitted: Fitted) -> Payload:
        return Payload({**self.averaged(me), **named(self.update(me))})

    def adapter_schema(self, server: Server, sender: str) -> Schema:
        """What a participant sends in a round."""
        layout, facts = server.state["layouts"][sender], server.state["told"][sender]
        averaged = [name for name in layout if name not in facts["frozen"]]
        adapters = [name for path in self.sent(server, sender) for name in (down(path), up(path))]
        return schema_of(layout | facts["adapters"], averaged + adapters)

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """What is averaged; of each layer perhaps an adapter, as large as one's own at most."""
        specs, ranks = dict(schema_of(layout_of(self.averaged(me))).tensors or {}), {}
        pairs = self.adapters(me)
        for path, (a, b) in pairs.items():
            rank = f"rows of A in {path}"
            specs[down(path)] = TensorSpec((rank, *a.shape[1:]), a.dtype)
            specs[up(path)] = TensorSpec((len(b), rank, *b.shape[2:]), b.dtype)
            ranks[rank] = 1, self.most_rank(len(a))
        return Schema(specs, lengths=ranks, optional=set(named(pairs)))

    def most_rank(self, own: int) -> int:
        """The rank that an adapter from the server has at most, by that of one's own."""
        return own

    def sent(self, server: Server, sender: str) -> list[str]:
        """The layers whose adapters a participant sends."""
        return list(server.state["told"][sender]["scales"])

    @exchange(lambda self, server, sender: self.adapter_schema(server, sender))
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean of the heads; the adapters as the method puts them together."""
        self.forget_base(server)
        merge = Merge(self, server)

        def received() -> Iterator[tuple[str, Pairs]]:
            for sender, payload in answers:
                if merge.add(sender, payload.tensors):
                    yield sender, paired(payload.tensors, self.sent(server, sender))

        self.combine(server, received())
        merge.finish()
        return self.replies(server, merge.senders)

    def forget_base(self, server: Server) -> None:
        """What is frozen is with all participants: the server needs it no more."""
        facts = server.state["told"]
        frozen = {self.keys(server, sender)[name] for sender in facts for name in facts[sender]["frozen"]}
        server.state["global"] = {key: e for key, e in server.state["global"].items() if key not in frozen}

    def means_of(self, server: Server, sender: str) -> dict[str, Tensor]:
        """The current means of what is averaged entry by entry."""
        held = server.state["global"]
        return {name: held[key] for name, key in self.keys(server, sender).items() if key in held}

    def reply(self, server: Server, sender: str) -> Payload:
        return Payload({**self.means_of(server, sender), **named(self.returned(server, sender))})

    def rank_of(self, server: Server, sender: str, path: str) -> int:
        """The rank of a participant's adapter when it joined."""
        return int(server.state["told"][sender]["adapters"][down(path)][1])


@dataclass(frozen=True)
class AdapterFacts(Schema):
    """What is sent at joining: of each adapter A and B, of one rank, and frozen weights among those that are shared."""

    def check(self, payload: Payload) -> None:
        super().check(payload)
        adapters, facts = payload.facts["adapters"], payload.facts
        if sorted(adapters) != sorted(name for path in facts["scales"] for name in (down(path), up(path))):
            raise PayloadError(f"it tells of {sorted(adapters)}; expected A and B at {sorted(facts['scales'])}")
        for path in facts["scales"]:
            a, b = adapters[down(path)], adapters[up(path)]
            if len(a) < 3 or len(b) < 3 or a[1] != b[2] or a[1] == 0:
                raise PayloadError(f"the adapter of {path!r} is {a} and {b}; expected A and B of one rank")
        if unknown := sorted(set(facts["frozen"]) - set(facts["layout"])):
            raise PayloadError(f"it freezes {unknown[0]!r}, of which its layout says nothing")


def _elsewhere(found: Layout, expected: Layout) -> str:
    return (
        f"its adapters are at other layers than the others', or layers of other sizes: {difference(found, expected)}. "
        f"Name the layers as `targets`"
    )


def _another_base(found: str, expected: str) -> str:
    return (
        "its frozen weights differ from the others'. Adapters need the same network below: bring one that was trained "
        'before, or let all take over one participant\'s with base="sent"'
    )


def _but_the_rank(facts: Mapping[str, Any]) -> Layout:
    """Types and shapes of adapters, without ranks."""
    layout, places = facts["adapters"], [(path, *pair) for path in facts["scales"] for pair in ((down, 1), (up, 2))]
    return {name(path): layout[name(path)][:rank] + layout[name(path)][rank + 1 :] for path, name, rank in places}
