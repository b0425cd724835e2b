"""FedAvg (McMahan et al., 2017): one model for all, averaged after local training."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Fit, Fitted, Predict, Request
from potluck.core.samples import Samples
from potluck.federation.method import Answer, Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.replies import by_reply_schema
from potluck.federation.server import Answers, Server
from potluck.methods.weight_sharing import Merge, WeightSharing, schema_of

GLOBAL, TUNED = "global", "tuned"
"""The global model, among the models that are reported, and the fine-tuned one, among a participant's."""


class Averaging(WeightSharing):
    """A round of training, and the mean of what all have trained."""

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        fitted = yield from self.local_work(me)
        self.take(me, (yield Exchange("weights", self.upload(me, fitted))))
        me.state["round"] = me.round
        return None

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        """What a participant does between what it received and what it sends: by default one training."""
        fitted: Fitted = yield self.training(me)
        return fitted

    def training(self, me: Participant) -> Fit:
        """The local training: what most methods derived from FedAvg change."""
        return Fit()

    def upload(self, me: Participant, fitted: Fitted) -> Payload:
        """What a participant sends after its training."""
        return Payload(self.shared(me))

    @exchange(lambda self, server, sender: schema_of(server.state["layouts"][sender]), reply=by_reply_schema)
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """w ← Σ (n_k / n) w_k, over those who took part."""
        merge = Merge(self, server)
        for sender, payload in answers:
            merge.add(sender, payload.tensors)
        merge.finish()
        return self.replies(server, merge.senders)


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

    needs = Needs(torch_module=True, same_architecture=True, one_input_shape=True, one_label_space=True, tasks="any")

    aggregation: Literal["whole", "layerwise", "same-architecture"] = "whole"
    weighting: Literal["samples", "uniform"] = "samples"
    fine_tune: int = Field(0, ge=0)

    def requires(self) -> Needs:
        if self.aggregation != "whole":
            return replace(self.needs, same_architecture=False, one_input_shape=False)
        return replace(self.needs, own_norms=self.batchnorm == "local")

    def reported(self) -> tuple[str, ...]:
        return (*self.reports, *([GLOBAL] if self.fine_tune else []))

    def models(self, me: Participant) -> Declared:
        return own_copy(me, TUNED) if self.fine_tune else {}

    def round(self, me: Participant) -> Steps:
        yield from super().round(me)
        if self.fine_tune:
            me.models[TUNED].load(me.weights())
            yield Fit(model=TUNED, plan=me.plan.replace(epochs=self.fine_tune))
            me.state["tuned"] = True
        return None

    def predict(self, me: Participant, inputs: Samples) -> Answer:
        """By the fine-tuned copy, once there is one: a newcomer answers with the global model."""
        return (yield Predict(inputs, model=TUNED if me.state.get("tuned") else None))

    def predict_with(self, model: str, party: Participant | Server, inputs: Samples) -> Answer:
        return (yield Predict(inputs)) if model == GLOBAL else (yield from super().predict_with(model, party, inputs))


def own_copy(me: Participant, name: str) -> Declared:
    """A further model that begins as a copy of a participant's own; none of what is no network: ``needs`` says so."""
    return {name: ModelSpec(lambda: copy.deepcopy(me.model))} if me.learner.shows_layers else {}
