"""FedAvg (McMahan et al., 2017): one model for all, averaged after local training."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Fit, Predict
from potluck.core.samples import Samples
from potluck.federation.method import Answer, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.weight_sharing import Merge, WeightSharing, schema_of

GLOBAL, TUNED = "global", "tuned"
"""The global model, among the models that are reported, and the fine-tuned one, among a participant's."""


class Averaging(WeightSharing):
    """A round of training, and the mean of what all have trained."""

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        yield self.training(me)
        self.take(me, (yield Exchange("weights", Payload(self.shared(me)))))
        me.state["round"] = me.round
        return None

    def training(self, me: Participant) -> Fit:
        """The local training: what most methods derived from FedAvg change."""
        return Fit()

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender]))
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """w ← Σ (n_k / n) w_k, over those who took part."""
        merge, senders = Merge(self, server), []
        for sender, payload in answers:
            merge.add(sender, payload.tensors)
            senders.append(sender)
        merge.finish()
        return self.replies(server, senders)


class FedAvg(Averaging):
    """Algorithm 1: every participant trains the global model on its own data; the server takes the mean.

    Optimizers start anew each round. A participant that sat out fetches the global model first.

    Args:
        aggregation: as in ``WeightSharing``; by default "whole". With "layerwise" networks may differ in depth, as
            FedIN's paper compares with it.
        weighting: as in ``WeightSharing``; by default "samples".
        batchnorm: as in ``WeightSharing``; by default "average".
        fine_tune: for how many epochs each participant trains a copy of the global model after each round, on its own
            data, to answer with; the global model is reported beside it. By default 0: the global model answers. This
            is personalised FedAvg, with which CoFED's paper compares; where participants know different labels, give
            all of them the union as their label space.
    """

    needs = Needs(torch_module=True, same_architecture=True, one_label_space=True)

    aggregation: Literal["whole", "layerwise", "same-architecture"] = "whole"
    weighting: Literal["samples", "uniform"] = "samples"
    fine_tune: int = Field(0, ge=0)

    def requires(self) -> Needs:
        if self.aggregation != "whole":
            return replace(self.needs, same_architecture=False)
        return replace(self.needs, own_norms=self.batchnorm == "local")

    def reported(self) -> tuple[str, ...]:
        return (*self.reports, *([GLOBAL] if self.fine_tune else []))

    def models(self, me: Participant) -> Declared:
        return {TUNED: ModelSpec(lambda: copy.deepcopy(me.model))} if self.fine_tune else {}

    def round(self, me: Participant) -> Steps:
        yield from super().round(me)
        if self.fine_tune:
            me.models[TUNED].load(me.weights())
            yield Fit(model=TUNED, plan=me.plan.replace(epochs=self.fine_tune))
        return None

    def predict(self, me: Participant, inputs: Samples) -> Answer:
        return (yield Predict(inputs, model=TUNED if self.fine_tune else None))

    def predict_with(self, model: str, party: Participant | Server, inputs: Samples) -> Answer:
        return (yield Predict(inputs)) if model == GLOBAL else (yield from super().predict_with(model, party, inputs))
