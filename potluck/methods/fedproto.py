"""FedProto (Tan et al., AAAI 2022): participants pull their features to everybody's mean feature of each class."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.requests import Fit, Predict, Tap
from potluck.core.samples import Samples
from potluck.federation.method import Answer, Replies, ServerSteps, Steps, exchange
from potluck.federation.participant import Participant
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import Merger
from potluck.methods.label_sharing import USUAL
from potluck.methods.own_loss import own_loss
from potluck.methods.prototype_sharing import PrototypeSharing
from potluck.methods.windows import Part


def distance_to_prototypes(features: Tensor, y: Tensor, prototypes: Tensor, known: Tensor) -> Tensor:
    """The mean squared error to the prototype of each sample's class; a class without one adds nothing."""
    apart = (features - prototypes[y].to(features.dtype)).square().mean(dim=1)
    return torch.where(known[y], apart, torch.zeros_like(apart)).mean()


def prototype_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equation 7: the own loss, and λ times the distance to the prototypes."""
    output, taken = model.taps(batch["x"], [context["place"]])
    features = taken[context["place"]].flatten(1)
    apart = distance_to_prototypes(features, batch["y"], context["prototypes"], context["known"])
    weight: float = context["weight"]
    return own_loss(output, batch, context) + weight * apart


class FedProto(PrototypeSharing):
    """Algorithm 1. A participant answers by the nearest prototype (equation 8), before there is one by its own head.

    The paper weights prototypes by samples (equation 6); the authors' code does not, and neither does this by default.
    A class without a prototype adds nothing to the loss. Prototypes are the trained model's means in evaluation mode
    (equation 3), where HtFLlib averages what it meets while training. It helps where features mean the same to all: of
    nine participants with 40 digits each those that began with the same weights reach 68.4%, and 58.6% alone; with
    other weights each they reach 36.6%, and 60.6% alone (tests/integration/test_better_than_local.py).

    Args:
        weight: λ, the weight of the distance; by default 1 (0.1 on CIFAR-10).
        feature: as in ``PrototypeSharing``; by default None, for what goes into the head.
        weighting: as in ``PrototypeSharing``; by default "uniform".
    """

    weight: float = Field(1.0, ge=0)

    def round(self, me: Participant) -> Steps:
        yield from self.catch_up(me)
        received = {name: me.state[name] for name in ("prototypes", "known")}
        yield Fit(prototype_loss, context={**received, "weight": self.weight, "place": self.place(me)})
        yield from self.send_own(me)
        return None

    def predict(self, me: Participant, inputs: Samples) -> Answer:
        if "known" not in me.state or not me.state["known"].any():
            return (yield Predict(inputs))
        features = (yield Tap(inputs, at=[self.place(me)]))[self.place(me)].flatten(1)
        prototypes = me.state["prototypes"].to(features.dtype)
        # In one way for any number of rows: by default torch takes another one for more than 25.
        distances = torch.cdist(features, prototypes, compute_mode="donot_use_mm_for_euclid_dist")
        return (-distances).masked_fill(~me.state["known"], -torch.inf).softmax(dim=1)

    @exchange(PrototypeSharing.prototypes_schema, reply=PrototypeSharing.current_schema)
    def prototypes(self, server: Server, answers: Answers) -> Replies | ServerSteps:
        """Equation 6: each class's mean over those who have it; the old one where nobody of this round has."""
        old, counts = server.state["means"], torch.zeros_like(server.state["counts"])
        merger = Merger(self, server, {str(place): row for place, row in enumerate(old)}, USUAL)
        for sender, payload in answers:
            has = payload["counts"].nonzero().squeeze(1).tolist()
            rows = [Part(str(place), payload["means"][place], float(payload["counts"][place])) for place in has]
            if merger.add(sender, rows):
                counts += payload["counts"]
        merged = merger.results()
        server.state["means"] = torch.stack([merged.get(str(place), row) for place, row in enumerate(old)])
        server.state["counts"] = torch.where(counts > 0, counts, server.state["counts"])
        return self.current(server)
