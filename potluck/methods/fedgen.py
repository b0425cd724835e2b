"""FedGen (Zhu et al., ICML 2021), for mixed models: the server learns to generate features that all heads know."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from potluck.core.inputs import Batch
from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.model_view import FrozenModel, ModelView
from potluck.core.objectives import Context
from potluck.core.payload import Payload
from potluck.core.plan import Plan
from potluck.core.requests import Exchange, Fit
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import by_reply_schema
from potluck.federation.server import Answers, Server
from potluck.methods.distillation import kl
from potluck.methods.head_sharing import HeadSharing, head_of, head_shape, linear_head
from potluck.methods.own_loss import own_loss
from potluck.methods.server_training import ServerTraining
from potluck.methods.weight_sharing import Merge, schema_of

GENERATOR = "generator"
"""The generator, among a participant's models and the server's; its entries' prefix in payloads."""


class FeatureGenerator(nn.Sequential):
    """Features for noise and a class, given in one row (the authors' generator).

    Args:
        noise: how many numbers of noise.
        classes: how many classes.
        hidden: the width of the hidden layer.
        width: how many numbers a feature has.
    """

    def __init__(self, noise: int, classes: int, hidden: int, width: int) -> None:
        layers = nn.Linear(noise + classes, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, width)
        super().__init__(*layers)


def generated_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """The own loss + α·CE(head(G(ε, y′)), y′) + β·KL(head(G(ε, y)) ‖ answer): equation 10, and the authors' β."""
    output = model(batch["x"])
    drawn = torch.special.ndtr(batch["class"])  # standard normal numbers made even, then classes by their shares
    y = (drawn > context["cumulated"][:-1].to(drawn.dtype)).sum(dim=1)
    known = model.part(context["head"], context[GENERATOR](with_class(batch["noise"], y, output.shape[1])))
    loss: Tensor = own_loss(output, batch, context) + context["alpha"] * F.cross_entropy(known, y)
    if context["beta"]:
        said = context[GENERATOR](with_class(batch["noise"], batch["y"], output.shape[1]))
        loss = loss + context["beta"] * kl(model.part(context["head"], said), output).mean()
    return loss


def with_class(noise: Tensor, y: Tensor, classes: int) -> Tensor:
    """What a generator reads: noise, and which class."""
    return torch.cat([noise, (y[:, None] == torch.arange(classes, device=y.device)).to(noise.dtype)], dim=1)


def generator_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equation 9 and the diversity that the authors' code adds."""
    features = model(batch["x"])
    diversity: float = context["diversity"]
    return ensemble_loss(features, batch["y"], context) + diversity * diversity_loss(batch["noise"], features)


def ensemble_loss(features: Tensor, y: Tensor, context: Context) -> Tensor:
    """What the heads make of features of the classes ``y``; see ``FedGen.ensemble``."""
    weight, bias = (context[name].to(features.dtype) for name in ("weight", "bias"))
    logits = torch.einsum("nd,kcd->nkc", features, weight) + bias
    if context["ensemble"] != "labels":
        return F.cross_entropy((logits * context["share"][:, None]).sum(dim=1), y)
    each = F.cross_entropy(logits.flatten(0, 1), y.repeat_interleave(logits.shape[1]), reduction="none")
    share: Tensor = context["label_share"]
    return (each.view(logits.shape[:2]) * share[:, y].T).sum(dim=1).mean()


def diversity_loss(noise: Tensor, features: Tensor) -> Tensor:
    """exp(−mean over pairs of MSE(noise)·MAE(features)): other noise must give other features."""
    apart = (noise[:, None] - noise).square().mean(dim=2) * (features[:, None] - features).abs().mean(dim=2)
    return (-apart.mean()).exp()


class FedGen(HeadSharing, ServerTraining):
    """Algorithm 1 with a head in common: learn also from generated features; the server trains their generator.

    In the first round nothing is generated yet. HtFLlib never saves the trained generator and draws even noise, and
    FL-bench trains it against the mean head alone: not copied. With little data it gains little: eight participants
    with 40 digits each reach 74.3%, and 74.1% alone (tests/integration/test_better_than_local.py).

    Args:
        alpha: α, the weight of generated features in training; by default 1, as in equation 10 (the authors' code 10).
        beta: β, the weight of KL from what the head makes of a generated feature of a sample's class; by default 0, as
            in equation 10 (the authors' code 10).
        decay: what α and β are multiplied by after each round; by default 1 (the authors' code 0.98).
        ensemble: what the generator minimises: "labels" (the default, the authors' code) each head's cross-entropy,
            weighted by its share of a class's samples, so that who does not know a class has no vote on it; "logits"
            the cross-entropy of the mean logits (the paper), or "samples" of logits weighted by samples (HtFLlib).
        diversity: the weight of the diversity of what is generated; by default 1 (the paper and HtFLlib have none).
        noise: how many numbers of noise; by default 32.
        hidden: the width of the generator's hidden layer; by default 256.
        server_steps: how many batches of the server's plan it trains on; by default 50.
        server_plan: how; by default Adam with a rate of 0.0003 in batches of 32. A dict changes some settings.
        keep_server_optimizer: whether its optimizer remembers from round to round; by default True, as the authors'.
        aggregation: as in ``HeadSharing``.
        weighting: how heads are averaged, as in ``WeightSharing``; by default "samples".
        batchnorm: as in ``HeadSharing``.
    """

    sends: ClassVar[Mapping[str, str]] = {
        **HeadSharing.sends,
        "weights": "its trained head, and how many samples of each class it has",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**HeadSharing.leaves, "weights": ("weights", "statistics")}

    alpha: float = Field(1.0, ge=0)
    beta: float = Field(0.0, ge=0)
    decay: float = Field(1.0, gt=0, le=1)
    ensemble: Literal["labels", "logits", "samples"] = "labels"
    diversity: float = Field(1.0, ge=0)
    noise: int = Field(32, ge=1)
    hidden: int = Field(256, ge=1)
    server_steps: int = Field(50, ge=1)
    server_plan: Plan = Plan(optimizer="adam", lr=3e-4, batch_size=32)
    keep_server_optimizer: bool = True
    weighting: Literal["samples", "uniform"] = "samples"

    def generator(self, classes: int, width: int) -> Any:
        """What builds the generator."""
        return partial(FeatureGenerator, self.noise, classes, self.hidden, width)

    def models(self, me: Participant) -> Declared:
        if not me.learner.shows_layers:
            return {}  # it is told that it cannot take part
        return {GENERATOR: ModelSpec(self.generator(*linear_head(me).weight.shape))}

    def server_models(self, server: Server) -> Declared:
        build = self.generator(*head_shape(server))
        return {GENERATOR: ModelSpec(build, plan=self.server_plan, keep_optimizer=self.keep_server_optimizer)}

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        yield self.training(me)
        counts = me.data.y.bincount(minlength=len(me.labels))
        self.take(me, (yield Exchange("weights", Payload({**self.shared(me), "counts": counts}))))
        me.state["round"] = me.round
        return None

    def training(self, me: Participant) -> Fit:
        """Plain training until there is a generator."""
        if "cumulated" not in me.state:
            return Fit()
        generator = me.models[GENERATOR]
        fading = self.decay ** (me.round - 1)
        context = {
            "cumulated": me.state["cumulated"],
            "head": head_of(me),
            GENERATOR: FrozenModel(generator.weights(), generator.model),
            "alpha": self.alpha * fading,
            "beta": self.beta * fading,
        }
        return Fit(generated_loss, context=context, noise={"noise": (self.noise,), "class": (1,)})

    def take(self, me: Participant, reply: Payload) -> None:
        super().take(me, reply)
        if "cumulated" in reply.tensors:
            prefix = f"{GENERATOR}."
            entries = {n.removeprefix(prefix): e for n, e in reply.tensors.items() if n.startswith(prefix)}
            me.models[GENERATOR].load(entries)
            me.state["cumulated"] = reply["cumulated"]

    def reply(self, server: Server, sender: str) -> Payload:
        """The common head, and from the end of the first round on the generator and how common classes are."""
        head = self.entries(server, sender)
        if "cumulated" not in server.state:
            return Payload(head)
        trained = {f"{GENERATOR}.{name}": entry for name, entry in server.models[GENERATOR].weights().items()}
        return Payload({**head, **trained, "cumulated": server.state["cumulated"]})

    def reply_schema(self, me: Participant, sent: Schema) -> Schema:
        """The head, and once there is one the generator."""
        entries = self.entries_schema(me).tensors or {}
        built = me.models[GENERATOR].weights()  # in one's own precision; it travels in the server's
        trained = {
            f"{GENERATOR}.{name}": TensorSpec(
                tuple(entry.shape), torch.float32 if entry.is_floating_point() else entry.dtype
            )
            for name, entry in built.items()
        }
        more = {**trained, "cumulated": TensorSpec((len(me.labels),), low=0, high=1.01)}
        return Schema({**entries, **more}, optional=set(more))

    def weights_schema(self, server: Server, sender: str) -> Schema:
        """A head, and counts of classes."""
        more = {"counts": TensorSpec((head_shape(server)[0],), torch.int64, low=0)}
        return schema_of(server.state["layouts"][sender], more=more)

    @exchange(weights_schema, reply=by_reply_schema)
    def weights(self, server: Server, answers: Answers) -> ServerSteps:
        """Trains the generator against the uploaded heads, and averages the heads."""
        merge, in_order = Merge(self, server), sorted(answers, key=lambda answer: answer[0])
        heads = [payload for sender, payload in in_order if merge.add(sender, payload.tensors)]
        if not heads:
            return {}
        counts = torch.stack([head["counts"] for head in heads]).double()
        common = counts.sum(dim=0) if counts.any() else torch.ones(counts.shape[1])
        rows = self.server_steps * self.server_plan.batch_size
        y = torch.multinomial(common, rows, replacement=True, generator=server.generator("classes"))
        noise = torch.randn(rows, self.noise, generator=server.generator("noise"))
        yield Fit(
            generator_loss,
            on=Samples({"x": with_class(noise, y, counts.shape[1]), "y": y, "noise": noise}),
            context={**self.ensemble_of(heads, counts), "diversity": self.diversity, "ensemble": self.ensemble},
            model=GENERATOR,
        )
        merge.finish()
        server.state["cumulated"] = (common / common.sum()).cumsum(dim=0).float()
        return self.replies(server, merge.senders)

    def ensemble_of(self, heads: list[Payload], counts: Tensor) -> dict[str, Tensor]:
        """The heads as one, and how much each counts: of all samples, and of each class's."""
        weight = torch.stack([head["weight"] for head in heads]).float()
        bias = [head["bias"] if "bias" in head.tensors else torch.zeros(weight.shape[1]) for head in heads]
        owned = counts.sum(dim=1) if self.ensemble == "samples" else torch.ones(len(heads))
        return {
            "weight": weight,
            "bias": torch.stack(bias).float(),
            "share": (owned / owned.sum().clamp(min=1)).float(),
            "label_share": (counts / counts.sum(dim=0).clamp(min=1)).float(),
        }
