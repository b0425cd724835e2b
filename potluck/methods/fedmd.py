"""FedMD (Li and Wang, 2019): participants move towards the mean of everybody's scores on public data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.payload import Payload
from potluck.core.randomness import generator
from potluck.core.requests import Exchange, Fit
from potluck.core.schema import Schema, TensorSpec
from potluck.federation.method import Leaving, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.distillation import answers_of, as_probabilities, fit_in_turn, fit_labels, scored
from potluck.methods.label_sharing import LabelSharing


def digest_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """The mean absolute error to the consensus, as in the authors' code; the paper leaves the loss open."""
    scores = scored(model(batch["x"]), context["scores"])
    return F.l1_loss(scores, batch["consensus"].to(scores.dtype))


class FedMD(LabelSharing):
    """Algorithm 1: learn public data, then one's own; each round send scores of public samples, digest, revisit.

    An estimator sends the logarithms of its probabilities for logits, and is fitted to its own data and, in one fit, to
    the softmax of the consensus as weighted labels: that is ours, since the paper has networks alone.

    Args:
        pretrain: whether everybody first trains on the labelled public data ("transfer learning"); by default True.
            With False the public data need no labels.
        scores: what the consensus is the mean of: "logits" (the default, the authors' code), or "probabilities", which
            suits federations with estimators, whose logarithms outweigh a network's.
        subset: how many public samples are drawn in each round; by default 5000.
        digest_epochs: epochs on the consensus; by default 1.
        digest_batch_size: samples at a step of them; by default 256.
        revisit_epochs: epochs on one's own data after it; by default 4.
        revisit_batch_size: samples at a step of them; by default 5.
    """

    needs = Needs(public="labels", one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {**LabelSharing.sends, "consensus": "scores of the round's public samples"}
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**LabelSharing.leaves, "consensus": ("predictions",)}

    pretrain: bool = True
    scores: Literal["logits", "probabilities"] = "logits"
    subset: int = Field(5000, ge=1)
    digest_epochs: int = Field(1, ge=0)
    digest_batch_size: int = Field(256, ge=1)
    revisit_epochs: int = Field(4, ge=0)
    revisit_batch_size: int = Field(5, ge=1)

    def requires(self) -> Needs:
        return replace(self.needs, public="labels" if self.pretrain else "inputs")

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        yield from fit_in_turn(me, *([me.public] if self.pretrain and me.public else []), me.data)
        return None

    def round(self, me: Participant) -> Steps:
        assert me.public is not None
        rows = torch.randperm(len(me.public), generator=generator(me.seed, "FedMD's public subset", me.round))
        subset = me.public.inputs().take(rows[: self.subset])
        scores = scored((yield from answers_of(me, subset)), self.scores).float()
        consensus = (yield Exchange("consensus", Payload({"scores": scores})))["scores"]
        if not me.learner.shows_layers:
            soft = consensus if self.scores == "probabilities" else as_probabilities(consensus)
            yield fit_labels(me, me.data, subset.with_targets(soft=soft))
            return None
        digest = me.plan.replace(epochs=self.digest_epochs, batch_size=self.digest_batch_size)
        targets = subset.with_targets(consensus=consensus)
        yield Fit(digest_loss, on=targets, context={"scores": self.scores}, plan=digest)
        yield Fit(plan=me.plan.replace(epochs=self.revisit_epochs, batch_size=self.revisit_batch_size))
        return None

    def scores_schema(self, server: Server, sender: str) -> Schema:
        """A row of scores for each sample of the round."""
        return Schema({"scores": TensorSpec((min(self.subset, server.public_size), len(server.state["labels"])))})

    @exchange(scores_schema, reply=lambda self, me, sent: sent)
    def consensus(self, server: Server, answers: Answers) -> Payload:
        """f̃(x) = (1/m) Σ f_k(x)."""
        return Payload({"scores": self.merged(server, answers, "scores")[0]})
