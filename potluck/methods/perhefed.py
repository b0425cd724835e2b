"""PerHeFed (Ma, Liao et al., 2022): participants share some filters of some convolutions, whatever their networks.

Of a convolution its weights are sent, as filters × channels × height × width (width 1 if it has one dimension).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.errors import PayloadError, RequirementsError, SettingsError, nearest
from potluck.core.payload import LazyReplies, Payload, dtype_named
from potluck.core.requests import Exchange, Fit
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import as_sent, nothing
from potluck.federation.server import Answers, Server
from potluck.learners.structure import convolutions
from potluck.methods import offsets
from potluck.methods.averaging import Merger, Merging
from potluck.methods.windows import Part, window

LARGEST = 2**28
"""How many values the global model may have: no participant can make the server allocate more."""

Ratio = Annotated[float, Field(gt=0, le=1)]
Numbers = list[Annotated[int, Field(ge=0)]]
Relation = dict[str, Any]
"""``dtype``, and for each ``layers`` entry which filters of the global layer it updates and the shape that is sent."""


class PerHeFed(Merging):
    """Section 3.1: train, upload the shared sub-model, take the global values exactly where one shared.

    Biases, normalisation layers, shortcuts and the classifier stay local. A participant that sat out goes on from its
    own model: what it missed comes with its next exchange.

    Args:
        inter: the share of layers that a participant shares, drawn once, at joining (section 4.1); by default 0.5.
        intra: the share of filters in each of them, drawn once, too; by default 1.
        offsets: which filter of the global layer one's first filter maps to (section 3.2.2): "zero" (the default) for
            the first, "random" for any that leaves room, drawn once, "even" for that from which on the fewest others
            are, as in HFL, or name → one for each shared layer.
        choices: what a participant decides for itself instead of ``inter`` and ``intra``, as name → layer → its shared
            filters, by number or as a share to draw; by default nothing. Only the participant's half reads it, so each
            may know its own alone, or override ``choose``.
    """

    needs = Needs(torch_module=True, convolutions=True, tasks="any")
    keep_optimizer: ClassVar[bool] = True
    sends: ClassVar[Mapping[str, str]] = {
        "structure": "the shapes of the convolutions it shares, and which of their filters, once",
        "share": "the weights of those filters after training, and how many of them are not zero",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {"structure": ("statistics",), "share": ("weights",)}

    inter: Ratio = 0.5
    intra: Ratio = 1.0
    offsets: Literal["zero", "random", "even"] | dict[str, Numbers] = "zero"
    choices: dict[str, dict[str, Ratio | Numbers]] = Field(default_factory=dict)

    def join(self, me: Participant) -> Steps:
        own = me.weights()
        shared = {f"{layer}.weight": filters for layer, filters in self.choose(me).items()}
        masks = [torch.zeros(len(own[name])).index_fill(0, filters, 1).bool() for name, filters in shared.items()]
        shapes = torch.tensor([_shape(own[name]) for name in shared], dtype=torch.int32)
        dtype = str(own[next(iter(shared))].dtype).removeprefix("torch.")
        yield Exchange("structure", Payload({"shapes": shapes, "filters": torch.cat(masks)}, {"dtype": dtype}))
        me.state["shared"] = shared
        return None

    def choose(self, me: Participant) -> dict[str, Tensor]:
        """Layer → the filters a participant shares, in depth order."""
        own = me.network.tensors()  # each once: a weight that two layers use is listed as the first one's
        layers = [layer for layer in convolutions(me.model) if f"{layer}.weight" in own]
        chosen = self.choices.get(me.name)
        if chosen is None:
            drawn = _draw(len(layers), self.inter, me.generator("layers"))
            chosen = {layers[index]: self.intra for index in drawn.tolist()}
        if not chosen:
            raise SettingsError(
                f"{me.name} shares no layer; expected some of {', '.join(layers) or 'its convolutions'}."
            )
        for layer in chosen:
            if layer not in layers:
                raise SettingsError(f"{me.name} cannot share {layer!r}.{nearest(layer, layers)}")
        return {layer: _filters(me, layer, chosen[layer]) for layer in layers if layer in chosen}

    def round(self, me: Participant) -> Steps:
        yield Fit()
        self.take(me, (yield Exchange("share", self.shared(me))))
        return None

    def shared(self, me: Participant) -> Payload:
        """The sub-model that a participant uploads, and how many values of each layer are not zero."""
        own = me.network.tensors()
        parts = [own[name].detach()[filters] for name, filters in me.state["shared"].items()]
        layers = {str(k): part.reshape(_shape(part)) for k, part in enumerate(parts)}
        return Payload(layers, {"nonzero": [int(part.count_nonzero()) for part in parts]})

    def take(self, me: Participant, reply: Payload) -> None:
        """Puts the global values where one shared."""
        own = me.weights()
        for k, (name, filters) in enumerate(me.state["shared"].items()):
            own[name][filters] = reply[str(k)].reshape(len(filters), *own[name].shape[1:])
        me.load({name: own[name] for name in me.state["shared"]})

    @exchange(lambda self, server, sender: STRUCTURE, phase="join", reply=nothing)
    def structure(self, server: Server, answers: Answers) -> Payload:
        """Section 3.2.1, the fit-all global model: the k-th shared layers' largest size in each dimension."""
        payloads = dict(answers)
        for name in {*self.choices, *(self.offsets if isinstance(self.offsets, dict) else ())}:
            if name not in server.participant_weights:
                raise SettingsError(f"There is no participant {name!r}.{nearest(name, server.participant_weights)}")
        sizes: list[list[int]] = []
        for sender in sorted(payloads, key=lambda sender: (_values(payloads[sender]["shapes"]), sender)):
            larger = _envelope(sizes, payloads[sender]["shapes"].tolist())
            if _values(torch.tensor(larger)) > LARGEST:
                server.refuse(sender, f"it would make the global model's layers {larger}; expected {LARGEST:,} values")
                del payloads[sender]
            else:
                sizes = larger
        filters = {sender: payload["shapes"][:, 0].tolist() for sender, payload in payloads.items()}
        begin = self._offsets(server, filters, [size[0] for size in sizes])
        relations = server.state["relations"] = {}
        for sender, payload in payloads.items():
            try:
                relations[sender] = self._relation(payload, begin[sender], sizes)
            except RequirementsError as error:
                server.refuse(sender, str(error))
        dtype = reduce(torch.promote_types, (dtype_named(payload.facts["dtype"]) for payload in payloads.values()))
        server.state["global"] = [torch.zeros(size, dtype=dtype) for size in sizes]
        self.tell_few(Counter(f"layer {k}" for relation in relations.values() for k in range(len(relation["layers"]))))
        return Payload()

    def _offsets(self, server: Server, filters: dict[str, list[int]], sizes: list[int]) -> dict[str, list[int]]:
        """Where each one's filters begin in the global layers."""
        if self.offsets == "random":
            return offsets.drawn(filters, sizes, server)
        if self.offsets == "even":
            return offsets.even(filters, sizes)
        return offsets.zero(filters) | (self.offsets if isinstance(self.offsets, dict) else {})

    def _relation(self, payload: Payload, begin: list[int], sizes: list[list[int]]) -> Relation:
        """Section 3.2.2: a participant's k-th shared layer updates the k-th global one, from its offset on."""
        shapes: list[list[int]] = payload["shapes"].tolist()
        room = [whole[0] - own[0] for whole, own in zip(sizes, shapes, strict=False)]
        if len(begin) != len(room) or any(offset > most for offset, most in zip(begin, room, strict=True)):
            raise RequirementsError(f"it has offsets {begin}; its shared layers leave room for at most {room}")
        masks = torch.split(payload["filters"], [shape[0] for shape in shapes])
        filters = [mask.nonzero().squeeze(1) + offset for mask, offset in zip(masks, begin, strict=True)]
        layers = [[rows, [len(rows), *shape[1:]]] for rows, shape in zip(filters, shapes, strict=True)]
        return {"dtype": payload.facts["dtype"], "layers": layers}

    @exchange(lambda self, server, sender: _schema(server.state["relations"][sender]), reply=as_sent)
    def share(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Section 3.2.3: the mean of each position over those who share it, weighted by their non-zero parameters."""
        relations, old = server.state["relations"], server.state["global"]
        merger = Merger(self, server, {str(k): layer for k, layer in enumerate(old)})
        for sender, payload in answers:
            layers = enumerate(zip(relations[sender]["layers"], payload.facts["nonzero"], strict=True))
            parts = [(str(k), rows, nonzero * server.participant_weights[sender]) for k, ((rows, _), nonzero) in layers]
            merger.add(sender, [Part(k, payload[k], weight, [rows, 0, 0, 0]) for k, rows, weight in parts])
        merged = merger.results()
        new = server.state["global"] = [merged.get(str(k), layer) for k, layer in enumerate(old)]
        return LazyReplies(merger.senders, lambda sender: _pruned(new, relations[sender]))


def _envelope(some: list[list[int]], others: list[list[int]]) -> list[list[int]]:
    """The k-th layers' largest size in each dimension."""
    layers = (list(filter(None, shapes)) for shapes in zip_longest(some, others))
    return [[max(lengths) for lengths in zip(*shapes, strict=True)] for shapes in layers]


class Structure(Schema):
    """What a participant may send of its sub-model's structure: whole, not empty, and not too large."""

    def check(self, payload: Payload) -> None:
        super().check(payload)
        shapes, filters = payload["shapes"], payload["filters"]
        if not 0 < _values(shapes) <= LARGEST:
            raise PayloadError(f"its layers have {_values(shapes):,.0f} values; expected 1 to {LARGEST:,}")
        if len(filters) != shapes[:, 0].sum():
            raise PayloadError(f"it marks {len(filters)} filters; its layers have {int(shapes[:, 0].sum())}")
        if not all(mask.any() for mask in torch.split(filters, shapes[:, 0].tolist())):
            raise PayloadError("it shares a layer without any of its filters")


STRUCTURE: Schema = Structure(
    {"shapes": TensorSpec((None, 4), torch.int32, low=1, high=2**16), "filters": TensorSpec((None,), torch.bool)},
    {"dtype": Literal["float32", "float64", "float16", "bfloat16"]},
)


class SubModel(Schema):
    """Only the filters announced at joining, and of no layer more non-zero values than it has."""

    def check(self, payload: Payload) -> None:
        super().check(payload)
        sizes = [payload[name].numel() for name in self.tensors or ()]
        counts = payload.facts["nonzero"]
        if len(counts) != len(sizes) or any(count > size for count, size in zip(counts, sizes, strict=True)):
            raise PayloadError(f"fact 'nonzero' is {counts}; expected one number for each layer, at most {sizes}")


def _schema(relation: Relation) -> Schema:
    dtype = dtype_named(relation["dtype"])
    layers = {str(k): TensorSpec(tuple(shape), dtype) for k, (_, shape) in enumerate(relation["layers"])}
    return SubModel(layers, {"nonzero": Numbers})


def _pruned(layers: list[Tensor], relation: Relation) -> Payload:
    """Step 5: the global values where a participant shared."""
    places = [window([filters, 0, 0, 0], shape) for filters, shape in relation["layers"]]
    dtype = dtype_named(relation["dtype"])
    return Payload({str(k): layers[k][place].to(dtype) for k, place in enumerate(places)})


def _filters(me: Participant, layer: str, chosen: float | list[int]) -> Tensor:
    """A layer's shared filters, drawn or as numbered."""
    count = len(me.network.tensors()[f"{layer}.weight"])
    if isinstance(chosen, float):
        return _draw(count, chosen, me.generator(f"filters of {layer}"))
    if not chosen or max(chosen) >= count:
        raise SettingsError(f"{me.name} shares filters {chosen} of {layer!r}; expected numbers from 0 to {count - 1}.")
    return torch.tensor(sorted(set(chosen)))


def _draw(count: int, share: float, generator: torch.Generator) -> Tensor:
    """A share of the numbers below ``count``, at least one, in order."""
    return torch.randperm(count, generator=generator)[: max(1, round(share * count))].sort().values


def _shape(weight: Tensor) -> list[int]:
    return [*weight.shape, *[1] * (4 - weight.ndim)]


def _values(shapes: Tensor) -> float:
    """How many values layers of these shapes have; as a float, which cannot overflow."""
    return float(shapes.double().prod(dim=1).sum())
