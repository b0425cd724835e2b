"""FedAvg (McMahan et al., 2017): one model for all, averaged after local training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from potluck.core.payload import Payload
from potluck.core.requests import Exchange, Fit
from potluck.federation.method import Needs, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.weight_sharing import Merge, WeightSharing, schema_of


class FedAvg(WeightSharing):
    """Algorithm 1: every participant trains the global model on its own data; the server takes the mean.

    Optimizers start anew each round. A participant that sat out fetches the global model first.

    Args:
        aggregation: as in ``WeightSharing``; by default "whole". With "layerwise" networks may differ in depth, as
            FedIN's paper compares with it.
        weighting: as in ``WeightSharing``; by default "samples".
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    needs = Needs(torch_module=True, same_architecture=True, one_label_space=True)

    aggregation: Literal["whole", "layerwise", "same-architecture"] = "whole"
    weighting: Literal["samples", "uniform"] = "samples"

    def requires(self) -> Needs:
        if self.aggregation != "whole":
            return Needs(torch_module=True, one_label_space=True)
        return replace(self.needs, own_norms=self.batchnorm == "local")

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
