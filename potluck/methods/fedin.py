"""FedIN ("Federated Intermediate Layers Learning for Model Heterogeneity"): learn from the others' inner features.

A model is extractor → intermediate layers → classifier; weights travel, and what enters and leaves the second.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from statistics import median_low
from typing import Annotated, Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import TASK, Context, Gradients
from potluck.core.payload import Payload
from potluck.core.randomness import generator
from potluck.core.requests import Exchange, Fit, Request, Tap
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import by_reply_schema, nothing
from potluck.federation.server import Answers, Server
from potluck.methods.weight_sharing import Merge, WeightSharing, schema_of

IN, OUT = "features/in", "features/out"
"""The names under which the pairs (s_in, s_out) travel beside the weights."""

Drawn = tuple[Tensor, Tensor, Tensor]
"""A random number for each pair, s_in, s_out."""

Lengths = Annotated[list[Annotated[int, Field(ge=1, lt=2**31)]], Field(max_length=8)]
Shapes = Annotated[list[Lengths], Field(min_length=2, max_length=2)]
"""Of s_in and s_out."""


class FedIN(WeightSharing):
    """Section 4: local training and IN training at every step, then one batch of pairs is sent with the weights.

    Table 2b's ablations are ``intermediate=False``, ``proximal=0`` and ``alleviation="none"``.

    Args:
        alleviation: how the two gradients are combined: "simplified" (eq. 13, the default), "exact" (eq. 12) or "none"
            (their sum).
        proximal: μ/2 of eq. 3; by default 0.05. It multiplies a sum over all weights, so that one value weighs more the
            wider networks are.
        intermediate: whether there is IN training at all; by default True.
        noise: noise on the features, in units of their deviation (section 4.3; 0.8 for the paper's +Noise); by default
            0, for none.
        pairs: how many pairs a participant sends and receives in a round; by default 16.
        statistics: what BatchNorm's running statistics are taken from: "local and received" (the default), as when both
            simply pass through the network, or "local" batches alone (the paper does not say).
        aggregation: as in ``WeightSharing``; by default "layerwise" (section 4.4).
        weighting: as in ``WeightSharing``; by default "uniform".
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    needs = Needs(torch_module=True, stages=True, one_label_space=True, tasks="any")
    sends: ClassVar[Mapping[str, str]] = {
        **WeightSharing.sends,
        "shapes": "the shapes of the inputs and outputs of its intermediate layers, once",
        "update": "every weight of its trained model, and the inputs and outputs of its intermediate layers on a few "
        "of its own samples",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {
        **WeightSharing.leaves,
        "shapes": ("statistics",),
        "update": ("weights", "features"),
    }

    aggregation: Literal["whole", "layerwise", "same-architecture"] = "layerwise"
    weighting: Literal["samples", "uniform"] = "uniform"
    alleviation: Literal["simplified", "exact", "none"] = "simplified"
    proximal: float = Field(0.05, ge=0)
    intermediate: bool = True
    noise: float = Field(0.0, ge=0)
    pairs: int = Field(16, ge=1)
    statistics: Literal["local and received", "local"] = "local and received"

    def join(self, me: Participant) -> Steps:
        stages = me.stages
        yield from super().join(me)
        taken = yield Tap(me.data.take(torch.arange(1)), at=[stages.extractor[-1], stages.intermediate[-1]])
        shapes = [list(taken[stages.extractor[-1]].shape[1:]), list(taken[stages.intermediate[-1]].shape[1:])]
        yield Exchange("shapes", Payload(facts={"shapes": shapes}))
        me.state["shapes"] = shapes
        return None

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        yield self.training(me)
        self.take(me, (yield Exchange("update", Payload({**(yield from self._pairs(me)), **self.shared(me)}))))
        me.state["round"] = me.round
        return None

    def training(self, me: Participant) -> Fit:
        """The local training, and from the second round on IN training with it."""
        stages, features = me.stages, me.state.get("features")
        context = {
            "stages": {part: getattr(stages, part) for part in ("extractor", "intermediate", "classifier")},
            "received": _row(me.network.trainable()).detach(),
            "proximal": self.proximal,
            "noise": self.noise,
            "received counts": self.statistics == "local and received",
            **(features or {}),
        }
        shapes = me.state["shapes"]
        draws = {"noise in": tuple(shapes[0]), "noise out": tuple(shapes[1])} if self.noise else {}
        if features is None:
            return Fit(local, context=context, noise=draws)
        if self.alleviation == "simplified":
            return Fit(simplified, context=context, noise=draws)
        rule = exact if self.alleviation == "exact" else None
        return Fit([local, intermediate], context=context, noise=draws, combine_gradients=rule)

    def _pairs(self, me: Participant) -> Generator[Request, Any, dict[str, Tensor]]:
        """One batch of own samples as (s_in, s_out), noised as in the forward pass (eq. 4 and 5, section 4.3)."""
        if not self.intermediate:
            return {}
        draw, stages = me.generator("pairs"), me.stages
        rows = torch.randperm(len(me.data), generator=draw)[: self.pairs]
        entering, leaving = stages.extractor[-1], stages.intermediate[-1]
        inner = (yield Tap(me.data.take(rows).inputs(), at=[entering]))[entering]
        inner = _noised(inner, torch.randn(inner.shape, generator=draw, dtype=inner.dtype), self.noise)
        outer = (yield Tap(Samples({"x": inner}), at=[leaving], submodules=stages.intermediate))[leaving]
        outer = _noised(outer, torch.randn(outer.shape, generator=draw, dtype=outer.dtype), self.noise)
        return {IN: inner.float(), OUT: outer.float()}

    def take(self, me: Participant, reply: Payload) -> None:
        """Loads the weights, and stores the pairs for the next round."""
        me.load({name: entry for name, entry in reply.tensors.items() if name not in (IN, OUT)})
        if IN in reply.tensors:
            dtype = me.network.dtype
            me.state["features"] = {"s_in": reply[IN].to(dtype), "s_out": reply[OUT].to(dtype)}

    @exchange(lambda self, server, sender: Schema(facts={"shapes": Shapes}), phase="join", reply=nothing)
    def shapes(self, server: Server, answers: Answers) -> Payload:
        """Stores the shape of each one's features; only those of one shape learn from each other's."""
        server.state.setdefault("shapes", {}).update({sender: payload.facts["shapes"] for sender, payload in answers})
        server.state.setdefault("pairs", {})
        return Payload()

    @exchange(
        lambda self, server, sender: replace(
            schema_of(server.state["layouts"][sender], more=self.pair_schema(server.state["shapes"][sender])),
            lengths={"pairs": (1, self.pairs)},
        ),
        reply=by_reply_schema,
    )
    def update(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """Section 4.4's mean of the weights, and one batch drawn from all pairs that were sent."""
        merge, pairs, sizes = Merge(self, server), dict[str, Drawn](), dict[str, dict[str, float]]()
        for sender, payload in answers:
            if merge.add(sender, payload.tensors) and self.intermediate:
                draw, shape = generator(server.seed, "pairs", server.round, sender), str(server.state["shapes"][sender])
                new = torch.rand(len(payload[IN]), generator=draw), payload[IN], payload[OUT]
                sizes.setdefault(shape, {})[sender] = float(_sizes(new).max())
                pairs[shape] = drawn([pairs[shape], new] if shape in pairs else [new], self.pairs)
        merge.finish()
        server.state["pairs"] = {}
        for shape, found in pairs.items():
            most = (self.norm_limit or 0.0) ** 0.5 * median_low(sizes[shape].values()) or float("inf")
            for sender, size in sizes[shape].items():
                if size > most and len(sizes[shape]) > 2:  # of two nobody can tell whose are odd
                    server.refuse(sender, f"its pairs are of {size:g} (root mean square); expected {most:g} at most")
            if len(within := (_sizes(found) <= most).nonzero().squeeze(1)):
                server.state["pairs"][shape] = {IN: found[1][within], OUT: found[2][within]}
        return self.replies(server, [sender for sender in merge.senders if sender not in server.refused])

    def reply(self, server: Server, sender: str) -> Payload:
        pairs = server.state["pairs"].get(str(server.state["shapes"][sender]), {})
        return Payload({**self.entries(server, sender), **pairs})

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """Weights, and pairs of features where somebody has sent some of one's shape."""
        entries, pairs = self.entries_schema(me).tensors or {}, self.pair_schema(me.state["shapes"])
        return Schema({**entries, **pairs}, lengths={"pairs": (1, self.pairs)}, optional=set(pairs))

    def pair_schema(self, shapes: list[list[int]]) -> dict[str, TensorSpec]:
        """What pairs of features of these shapes look like."""
        if not self.intermediate:
            return {}
        return {name: TensorSpec(("pairs", *shape)) for name, shape in zip((IN, OUT), shapes, strict=True)}


def drawn(batches: list[Drawn], count: int) -> Drawn:
    """The pairs with the smallest numbers: each is equally likely, in whatever order and batches they come."""
    numbers, inner, outer = (torch.cat(parts) for parts in zip(*batches, strict=True))
    best = numbers.argsort()[:count]
    return numbers[best], inner[best], outer[best]


def _sizes(pairs: Drawn) -> Tensor:
    """The root mean square of each pair's larger half. Errors at it count squared: its bound is a root of weights'."""
    return torch.stack([half.flatten(1).double().square().mean(dim=1).sqrt() for half in pairs[1:]]).amax(dim=0)


def local(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Eq. 3: the task's loss, and the squared distance of the weights from those received."""
    stages = context["stages"]
    if context["noise"]:
        inner = model.part(stages["extractor"], batch["x"])
        outer = model.part(stages["intermediate"], _noised(inner, batch["noise in"], context["noise"]))
        logits = model.part(stages["classifier"], _noised(outer, batch["noise out"], context["noise"]))
    else:
        logits = model(batch["x"])
    loss: Tensor = context[TASK].loss(logits, batch["y"], batch.get("weight"))
    if context["proximal"]:
        loss = loss + context["proximal"] * ((_row(model.parameters) - context["received"]) ** 2).sum()
    return loss


def intermediate(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Eq. 7: the intermediate layers should turn the received inputs into the received outputs."""
    found = model.part(context["stages"]["intermediate"], context["s_in"], running=context["received counts"])
    return F.mse_loss(found, context["s_out"])


def simplified(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Eq. 13: Z = G_IN + ½ G_local, which is the gradient of this loss, since G_IN is zero elsewhere."""
    return intermediate(model, batch, context) + 0.5 * local(model, batch, context)


def exact(gradients: list[Gradients], context: Context) -> Gradients:
    """Eq. 12, for each tensor of the intermediate layers; extractor and classifier take the local gradient."""
    own, theirs = gradients
    inner = tuple(f"{path}." for path in context["stages"]["intermediate"])
    return {name: _aligned(theirs[name], own[name]) if name.startswith(inner) else own[name] for name in own}


def _aligned(theirs: Tensor, own: Tensor) -> Tensor:
    """The gradient nearest to G_IN that does not point against G_local."""
    a, b = (own * own).sum(), (own * theirs).sum()
    return theirs - (b.clamp(max=0) / a.clamp(min=torch.finfo(a.dtype).tiny)) * own


def _row(parameters: Mapping[str, Tensor]) -> Tensor:
    """All parameters in one row, so that to compare two models takes one operation and not one for each tensor."""
    return torch.cat([parameters[name].flatten() for name in sorted(parameters)])


def _noised(features: Tensor, noise: Tensor, level: float) -> Tensor:
    """Section 4.3: Gaussian noise in units of the features' own deviation."""
    return features + level * features.detach().std() * noise if level else features
