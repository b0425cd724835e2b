"""FedAvg (McMahan et al., 2017): one model for all, averaged after local training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from potluck.method import Needs, Steps, exchange
from potluck.methods.weights import Merge, WeightSharing, form_of
from potluck.participant import Participant
from potluck.payload import Payload
from potluck.requests import Exchange, Fit
from potluck.server import Answers, Server


class FedAvg(WeightSharing):
    """Algorithm 1: everyone trains the global model on its own data; the server takes the mean.

    With ``aggregation="layerwise"`` it serves models of different depth, as FedIN's paper compares with it.
    Optimizers start anew each round. A participant that sat out fetches the global model first.
    """

    needs = Needs(layers=True, same_architecture=True, one_label_space=True)

    aggregation: Literal["whole", "layerwise", "same-architecture"] = "whole"
    weighting: Literal["samples", "uniform"] = "samples"

    def requires(self) -> Needs:
        if self.aggregation != "whole":
            return Needs(layers=True, one_label_space=True)
        return replace(self.needs, own_norms=self.batchnorm == "local")

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        yield self.training(me)
        self.take(me, (yield Exchange("weights", Payload(self.shared(me)))))
        me.state["round"] = me.round
        return None

    def training(self, me: Participant) -> Fit:
        """The local training: what most of FedAvg's relatives change."""
        return Fit()

    @exchange(lambda self, server, sender: form_of(server.state["layouts"][sender]))
    def weights(self, server: Server, answers: Answers) -> Mapping[str, Payload]:
        """w ← Σ (n_k / n) w_k, over those who took part."""
        merge, senders = Merge(self, server), []
        for sender, payload in answers:
            merge.add(sender, payload.tensors)
            senders.append(sender)
        merge.finish()
        return self.replies(server, senders)
