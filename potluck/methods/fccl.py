"""FCCL (Huang et al., CVPR 2022; FCCL+, 2023): answers that correlate class by class, and one's own earlier models."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import FrozenModel, ModelView
from potluck.core.objectives import Context
from potluck.core.payload import Payload
from potluck.core.randomness import generator
from potluck.core.requests import Exchange, Fit, Predict, Request
from potluck.core.samples import Samples
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.distillation import kl
from potluck.methods.label_sharing import LabelSharing
from potluck.methods.own_loss import own_loss


def correlations(own: Tensor, mean: Tensor, similarity: str = "cosine") -> Tensor:
    """Equation 4: M, the correlation of each column of one's own logits with each column of everybody's mean."""

    def standardised(logits: Tensor) -> Tensor:
        centred = logits - logits.mean(dim=0)
        length: Tensor = centred.norm(dim=0)
        return centred / length.clamp(min=1e-12)

    found = standardised(own).T @ standardised(mean.to(own.dtype))
    return found if similarity == "cosine" else found * (len(own) - 1) / len(own)


def correlation_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equation 5: Σ (1 − M_uu)² + λ Σ_{u≠v} (1 + M_uv)²."""
    found = correlations(model(batch["x"]), batch["mean"], context["similarity"])
    same = torch.eye(len(found), dtype=torch.bool, device=found.device)
    weight: float = context["off_diagonal"]
    return torch.where(same, (1 - found).square(), weight * (1 + found).square()).sum()


def earlier_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equations 7 to 9: the own loss, and KL from the model before the federation and from that of the last round."""
    output = model(batch["x"])
    apart = sum(kl(context[teacher](batch["x"]), output).mean() for teacher in ("intra", "previous"))
    return own_loss(output, batch, context) + apart


class FCCL(LabelSharing):
    """Algorithm 1: each trains alone at first; each round its public answers are drawn to the mean, then it revisits.

    One exchange of logits and one training on public inputs a round, by the plan's optimizer. The authors' code
    exchanges at every public batch and makes a new Adam for each, so that every step is one of signs: see
    ``exchange_every``. In its first version the consensus has one's own logits of before the round: see ``own``. M is
    the exact cosine; the code divides by a deviation of n − 1 and by n, so that its M cannot reach 1: ``similarity``.

    Args:
        pretrain_epochs: epochs of training alone before the first round; by default 40.
        public_epochs: epochs on the public inputs in each round; by default 1.
        public_batch_size: how many of them at a step, over which M is computed; by default 512.
        exchange_every: when logits are exchanged: once a "round" (the default), or at every public "batch", the same
            for all, after each of which the optimizer begins anew.
        own: which of one's own logits are in the mean that one learns: the "present" ones (the default), or the
            "previous" ones, of the model that the round began with; the same where there is one exchange a round.
        off_diagonal: λ, the weight of correlations between different classes, which are drawn to −1; by default 0.0051.
        similarity: "cosine" (the default) or "code".
    """

    needs = Needs(torch_module=True, public="inputs", one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {
        **LabelSharing.sends,
        "mean": "for each public sample the logits that its model gives to the labels",
    }
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**LabelSharing.leaves, "mean": ("predictions",)}

    pretrain_epochs: int = Field(40, ge=0)
    public_epochs: int = Field(1, ge=0)
    public_batch_size: int = Field(512, ge=2)
    exchange_every: Literal["round", "batch"] = "round"
    own: Literal["present", "previous"] = "present"
    off_diagonal: float = Field(0.0051, ge=0)
    similarity: Literal["cosine", "code"] = "cosine"

    @model_validator(mode="after")
    def _own_is_in_a_mean(self) -> FCCL:
        if self.robust is not None and self.own == "previous":
            raise ValueError('own = "previous" replaces one\'s own logits in the mean; with `robust` there is none.')
        return self

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        yield Fit(plan=me.plan.replace(epochs=self.pretrain_epochs))
        me.state.update(intra=me.weights(), previous=me.weights())
        return None

    def round(self, me: Participant) -> Steps:
        assert me.public is not None
        public, before = me.public.inputs(), None
        if self.exchange_every == "round":
            yield from self.learn_mean(me, public, self.public_epochs)
        else:
            if self.own == "previous":
                before = (yield Predict(public, logits=True)).float()
            for rows in self.batches(me.seed, me.round, len(public)):
                yield from self.learn_mean(me, public.take(rows), 1, None if before is None else before[rows])
        yield Fit(earlier_loss, context={name: FrozenModel(me.state[name]) for name in ("intra", "previous")})
        me.state["previous"] = me.weights()
        return None

    def learn_mean(
        self, me: Participant, on: Samples, epochs: int, before: Tensor | None = None
    ) -> Generator[Request, Any, None]:
        """Sends one's logits of some public inputs, and learns everybody's mean of them."""
        logits = (yield Predict(on, logits=True)).float()
        reply = yield Exchange("mean", Payload({"logits": logits}))
        mean = reply["logits"]
        if before is not None:
            mean = mean + (before - logits) / reply.facts["heard"]
        yield Fit(
            correlation_loss,
            on=on.with_targets(mean=mean),
            context={"off_diagonal": self.off_diagonal, "similarity": self.similarity},
            plan=me.plan.replace(epochs=epochs, batch_size=self.public_batch_size),
        )

    def batches(self, seed: int, round: int, size: int) -> list[Tensor]:
        """The public batches of a round, by their rows: the same for all."""
        draws = [generator(seed, "FCCL's public batches", round, epoch) for epoch in range(self.public_epochs)]
        orders = [torch.randperm(size, generator=draw) for draw in draws]
        return [rows for order in orders for rows in torch.split(order, self.public_batch_size)]

    def logits_schema(self, server: Server, sender: str) -> Schema:
        """A row of logits for each public sample, or for each of those whose turn it is."""
        rows = server.public_size
        if self.exchange_every == "batch":
            turns = self.batches(server.seed, server.round, rows)
            rows = len(turns[min(self.at_batch(server), len(turns) - 1)])
        return Schema({"logits": TensorSpec((rows, len(server.state["labels"])))})

    def mean_schema(self, me: Participant, sent: Schema) -> Schema:
        """The mean of what all have sent; where one's own in it is replaced, also of how many."""
        return replace(sent, facts={"heard": Annotated[int, Field(ge=1)]} if self.own == "previous" else {})

    @exchange(logits_schema, repeats=True, reply=mean_schema)
    def mean(self, server: Server, answers: Answers) -> Payload:
        """Equation 3: Z̄, everybody's mean, one's own included."""
        mean, heard = self.merged(server, answers, "logits")
        server.state["turn"] = [server.round, self.at_batch(server) + 1]
        return Payload({"logits": mean}, {"heard": heard} if self.own == "previous" else {})

    def at_batch(self, server: Server) -> int:
        """Which exchange of this round it is."""
        round, turn = server.state.get("turn", (0, 0))
        return int(turn) if round == server.round else 0
