"""MOON (Li et al., "Model-Contrastive Federated Learning", CVPR 2021): features near the global model's."""

from __future__ import annotations

from dataclasses import replace

import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import FrozenModel, ModelView, input_of
from potluck.core.objectives import Context
from potluck.core.payload import Payload
from potluck.core.requests import Fit, Fitted
from potluck.federation.method import Steps
from potluck.federation.participant import Participant
from potluck.methods.fedavg import FedAvg
from potluck.methods.own_loss import own_loss


class MOON(FedAvg):
    """Eq. 3 and 4: the task's loss, and a contrast that draws features to the global model's, away from one's former.

    ℓ + μ·CE([cos(z, z_global), cos(z, z_previous)]/τ, 0), with the global model as received and the own one of one's
    last round, both frozen and in evaluation mode. In the first round both are the same, and the contrast has no
    gradient. The paper's networks have a projection head before the last layer, whose output is z; here a network is as
    its owner made it.

    Args:
        mu: μ; by default 1. The paper's best on CIFAR-10, CIFAR-100 and Tiny-ImageNet are 5, 1 and 1.
        temperature: τ; by default 0.5.
        feature: the layer whose output is z; by default None, for what goes into the head.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    needs = replace(FedAvg.needs, head=True)

    mu: float = Field(1.0, ge=0)
    temperature: float = Field(0.5, gt=0)
    feature: str | None = None

    def round(self, me: Participant) -> Steps:
        yield from super().round(me)
        me.state["previous"] = me.state.pop("trained")
        return None

    def training(self, me: Participant) -> Fit:
        received = me.weights()
        context = {
            "global": FrozenModel(received),
            "previous": FrozenModel(me.state.get("previous", received)),
            "at": self.feature or input_of(me.head[0]),
            "mu": self.mu,
            "temperature": self.temperature,
        }
        return Fit(contrastive, context=context)

    def upload(self, me: Participant, fitted: Fitted) -> Payload:
        me.state["trained"] = me.weights()
        return super().upload(me, fitted)


def contrastive(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """ℓ_sup + μ·ℓ_con."""
    at = context["at"]
    output, taken = model.taps(batch["x"], [at])
    received, previous = (context[name].taps(batch["x"], [at])[1][at].flatten(1) for name in ("global", "previous"))
    term: Tensor = context["mu"] * contrast(taken[at].flatten(1), received, previous, context["temperature"])
    return own_loss(output, batch, context) + term


def contrast(z: Tensor, received: Tensor, previous: Tensor, temperature: float) -> Tensor:
    """−log(e^{cos(z, z_global)/τ} / (e^{cos(z, z_global)/τ} + e^{cos(z, z_previous)/τ})), the mean over samples."""
    near, far = (F.cosine_similarity(z, other, dim=1) / temperature for other in (received, previous))
    return F.softplus(far - near).mean()
