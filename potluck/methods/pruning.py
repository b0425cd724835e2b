"""Pruning: participants let weights go that matter little to them, and share what they keep (Hermes, LotteryFL).

What is kept travels alone: an entry's kept values in a row, and which they are as bits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from potluck.core.architecture import Layout, layout_of
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload, dtype_named
from potluck.core.requests import Exchange, Fit, Predict, Request
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.fedavg import Averaging
from potluck.methods.robust import ByDistance
from potluck.methods.weight_sharing import Merge

KEPT = "kept/"
"""What the names of masks begin with, beside those of the entries."""

Masks = dict[str, Tensor]
"""Entry → what is kept of it: of each value, or of each filter."""


def pruned(strength: Tensor, kept: Tensor, step: float, target: float) -> Tensor:
    """What is left when the weakest go.

    Args:
        strength: how much each one matters.
        kept: which are there.
        step: the share of those that goes.
        target: the share of all that may be gone in the end.
    """
    there = int(kept.sum())
    least = math.ceil(round((1 - target) * kept.numel(), 9))
    left = min(there, max(least, math.floor(round((1 - step) * there, 9))))
    survivors = torch.zeros(kept.numel(), dtype=torch.bool)
    survivors[strength.masked_fill(~kept, -1.0).flatten().topk(left).indices] = True
    return survivors.view_as(kept)


def spread(mask: Tensor, entry: Tensor) -> Tensor:
    """A mask of filters or values, in a shape that broadcasts to the entry's."""
    return mask.view(*mask.shape, *[1] * (entry.ndim - mask.ndim))


def packed(mask: Tensor) -> Tensor:
    """A mask as it travels: eight to a byte."""
    return torch.from_numpy(np.packbits(mask.numpy()))


def unpacked(bits: Tensor, shape: Sequence[int]) -> Tensor:
    """A mask of that shape from its bits."""
    values = np.unpackbits(bits.numpy(), count=math.prod(shape))
    return torch.from_numpy(values).bool().view(tuple(shape))


def sparse(entries: Mapping[str, Tensor], kept: Masks) -> Payload:
    """Entries as they travel: of those with a mask what is kept, and the mask."""
    values = {name: entry[kept[name]] if name in kept else entry for name, entry in entries.items()}
    return Payload({**values, **{f"{KEPT}{name}": packed(mask) for name, mask in kept.items()}})


class Pruning(Averaging):
    """A round of those who prune themselves: perhaps prune, train what is left, send and receive that alone.

    Args:
        threshold: the validation accuracy from which on a participant prunes itself.
        step_size: the share of what is left that goes at once; by default 0.2.
        target: the share of each layer that may be gone in the end; by default 0.5.
        weighting: as in ``WeightSharing``.
        batchnorm: as in ``WeightSharing``; by default "average".

    A subclass sets:
        by_filter: whether whole filters (or units) go, or single values.
    """

    needs = Needs(torch_module=True, same_architecture=True, one_label_space=True, validation=True)
    notes: ClassVar[Mapping[str, type]] = {"kept": float}
    sends: ClassVar[Mapping[str, str]] = {
        **Averaging.sends,
        "greet": "how many samples it has, the names, shapes and types of its weights, and which can be pruned, once",
        "weights": "the weights that it has kept after training, and which of all they are",
    }
    by_filter: ClassVar[bool]

    threshold: float = Field(ge=0, le=1)
    step_size: float = Field(0.2, gt=0, lt=1)
    target: float = Field(0.5, gt=0, lt=1)
    aggregation: Literal["whole"] = "whole"

    @model_validator(mode="after")
    def _each_position_by_itself(self) -> Pruning:
        if isinstance(self.robust, ByDistance):
            raise ValueError(
                f"robust = {self.robust.name!r} compares whole models, and of pruned ones each holds other values; "
                f'expected "median", "trimmed" or "norm-bound".'
            )
        return self

    def prunable(self, me: Participant) -> list[str]:
        """The entries of which something may go: matrices and kernels."""
        shared = self.shared(me)
        return [name for name, parameter in me.network.trainable().items() if parameter.ndim > 1 and name in shared]

    def strength(self, entry: Tensor) -> Tensor:
        """How much each filter (ℓ1), or each value, matters."""
        return entry.abs().flatten(1).sum(dim=1) if self.by_filter else entry.abs()

    def mask_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of an entry's mask."""
        return shape[:1] if self.by_filter else shape

    def introduction(self, me: Participant) -> dict[str, Any]:
        return {**super().introduction(me), "prunable": self.prunable(me)}

    def greeting(self, server: Server, sender: str) -> Schema:
        return PrunableFacts(facts={**super().greeting(server, sender).facts, "prunable": list[str]})

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        own = me.weights()
        me.state["kept"] = {name: torch.ones(self.mask_shape(own[name].shape)).bool() for name in self.prunable(me)}
        return None

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        kept = yield from self.thinned(me)
        own = me.weights()
        yield Fit(mask={name: spread(mask, own[name]) for name, mask in kept.items()})
        self.take(me, (yield Exchange("weights", sparse(self.shared(me), kept))))
        me.state.update(kept=kept, round=me.round)
        sizes = [(int(mask.sum()), mask.numel()) for mask in kept.values()]
        return {"kept": sum(some for some, _ in sizes) / max(1, sum(every for _, every in sizes))}

    def thinned(self, me: Participant) -> Generator[Request, Any, Masks]:
        """What a participant keeps: less than before where it is good enough and something may still go."""
        kept: Masks = me.state["kept"]
        assert me.validation is not None
        right = (yield Predict(me.validation)).argmax(dim=1) == me.validation.y
        if float(right.double().mean()) < self.threshold:
            return kept
        own = me.weights()
        less = {name: pruned(self.strength(own[name]), m, self.step_size, self.target) for name, m in kept.items()}
        if any(not torch.equal(less[name], mask) for name, mask in kept.items()):
            self.thin_out(me, less)
        return less

    def thin_out(self, me: Participant, kept: Masks) -> None:
        """What is not kept becomes 0."""
        own = me.weights()
        me.load({name: own[name] * spread(mask, own[name]) for name, mask in kept.items()})

    def take(self, me: Participant, reply: Payload) -> None:
        """Loads the values in a reply where they belong."""
        own = me.weights()
        values = {name: entry for name, entry in reply.tensors.items() if not name.startswith(KEPT)}
        for name, entry in values.items():
            if (bits := reply.tensors.get(f"{KEPT}{name}")) is None:
                own[name] = entry
            else:
                own[name][unpacked(bits, self.mask_shape(own[name].shape))] = entry
        me.load({name: own[name] for name in values})

    def sparse_schema(self, server: Server, sender: str) -> Schema:
        """What is kept of each entry, and which values or filters they are."""
        return self._sparse(server.state["layouts"][sender], server.state["told"][sender]["prunable"])

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """The same; of what one has not sent yet, the whole."""
        entries = self.entries_schema(me).tensors or {}
        sparse = self._sparse(layout_of(self.shared(me)), self.prunable(me))
        return replace(sparse, whole={name: entries[name] for name in sparse.sizes})

    def _sparse(self, layout: Layout, prunable: Collection[str]) -> Sparse:
        specs, sizes = {}, {}
        for name, (kind, *lengths) in layout.items():
            shape = [int(length) for length in lengths]
            found: list[int | None] = [*shape]
            if name in prunable:
                masked = self.mask_shape(shape)
                sizes[name] = math.prod(masked)
                specs[f"{KEPT}{name}"] = TensorSpec((math.ceil(sizes[name] / 8),), torch.uint8)
                found = [None, *shape[len(masked) :]]
            specs[name] = TensorSpec(tuple(found), dtype_named(str(kind)))
        return Sparse(specs, sizes=sizes)

    @exchange(sparse_schema)
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """The mean of each value over those who kept it; what nobody kept stays."""
        merge, kept = Merge(self, server), {}
        for sender, payload in answers:
            kept[sender] = {name: payload[f"{KEPT}{name}"] for name in server.state["told"][sender]["prunable"]}
            masks = self.masks_of(server, sender, kept[sender])
            tensors = dict(payload.tensors)
            for name, mask in masks.items():
                whole = payload[name].new_zeros([int(n) for n in server.state["layouts"][sender][name][1:]])
                whole[mask] = payload[name]
                tensors[name] = whole
            merge.add(sender, tensors, {name: spread(mask, tensors[name]) for name, mask in masks.items()})
        kept = {sender: kept[sender] for sender in merge.senders}
        merge.finish()
        server.state["kept"] = {**server.state.get("kept", {}), **kept}
        return self.replies(server, kept)

    def masks_of(self, server: Server, sender: str, bits: Mapping[str, Tensor]) -> Masks:
        """A participant's masks from their bits."""
        layout = server.state["layouts"][sender]
        return {name: unpacked(mask, self.mask_shape(layout[name][1:])) for name, mask in bits.items()}

    def returned(self, server: Server, sender: str) -> Masks:
        """Which values or filters a participant receives: those that it has kept."""
        return self.masks_of(server, sender, server.state.get("kept", {}).get(sender, {}))

    def reply(self, server: Server, sender: str) -> Payload:
        return sparse(self.entries(server, sender), self.returned(server, sender))


@dataclass(frozen=True)
class PrunableFacts(Schema):
    """What is sent at joining: matrices and kernels that can be pruned."""

    def check(self, payload: Payload) -> None:
        super().check(payload)
        layout = payload.facts["layout"]
        for name in payload.facts["prunable"]:
            if len(layout.get(name, ())) < 3:
                raise PayloadError(f"it would prune {name!r}; expected a matrix or kernel of its layout")


@dataclass(frozen=True)
class Sparse(Schema):
    """As many values, or filters, of an entry as its mask has bits.

    Args:
        sizes: entry → the size of its mask.
        whole: entry → what it must look like without a mask; by default there must be one.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    whole: Mapping[str, TensorSpec] = field(default_factory=dict)

    def check(self, payload: Payload) -> None:
        whole = {name: like for name, like in self.whole.items() if f"{KEPT}{name}" not in payload.tensors}
        masks = {f"{KEPT}{name}" for name in whole}
        sparse = {name: like for name, like in (self.tensors or {}).items() if name not in masks}
        Schema({**sparse, **whole}, self.facts).check(payload)
        for name, size in self.sizes.items():
            if name in whole:
                continue
            kept, found = int(unpacked(payload[f"{KEPT}{name}"], [size]).sum()), len(payload[name])
            if kept != found:
                raise PayloadError(f"it keeps {kept} of {name!r} and sends {found}")
