"""FedTGP (Zhang et al., AAAI 2024): the server trains prototypes that stay apart from each other by a margin."""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from potluck.core.inputs import Batch
from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Predict
from potluck.core.samples import Samples
from potluck.federation.method import ServerSteps, exchange
from potluck.federation.server import Answers, Server
from potluck.methods.averaging import NoPlainMean
from potluck.methods.fedproto import FedProto
from potluck.methods.prototypes import mean_over_holders
from potluck.methods.server_training import ServerTraining


class TrainablePrototypes(nn.Sequential):
    """A prototype for each class, from a vector of its own by two layers (the paper's figure 4).

    Args:
        classes: how many classes.
        width: how many numbers a feature has.
    """

    def __init__(self, classes: int, width: int) -> None:
        super().__init__(nn.Embedding(classes, width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def contrastive_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Equation 5: cross-entropy of −(distance to each prototype, plus the margin δ to that of one's own class)."""
    return margin_loss(batch["prototype"], batch["y"], model(context["classes"]), context["margin"])


def margin_loss(uploaded: Tensor, y: Tensor, prototypes: Tensor, margin: Tensor) -> Tensor:
    """That loss of uploaded prototypes of the classes ``y``. The square is clamped, since a root at 0 has no slope."""
    squares = (uploaded[:, None].to(prototypes.dtype) - prototypes).square().sum(dim=2)
    own = y[:, None] == torch.arange(len(prototypes), device=y.device)
    return F.cross_entropy(-(squares.clamp(min=1e-12).sqrt() + margin * own), y)


def adaptive_margin(centres: Tensor, limit: float, margin: Literal["max-min", "max"]) -> float:
    """Equation 6: δ = min(τ, margin), from the centres of the classes that somebody has."""
    apart = torch.cdist(centres, centres)
    if len(centres) < 2:
        return limit
    found = apart.max() if margin == "max" else apart.fill_diagonal_(torch.inf).min(dim=1).values.max()
    return min(limit, found.item())


class FedTGP(NoPlainMean, FedProto, ServerTraining):
    """Algorithm 1: participants as in FedProto; the server learns prototypes from all uploaded ones.

    The margin: the authors' code takes the largest distance of a class's centre to its nearest other (the default);
    the paper's equation the largest of all pairs. There is no term in the first round, when there are no prototypes.
    HtFLlib uploads prototypes of the model before its last training: that is not copied.

    Args:
        weight: λ; by default 10, as in the authors' scripts (the default of their arguments is 1).
        feature: as in ``PrototypeSharing``; by default None, for what goes into the head.
        weighting: how class centres are averaged for the margin, as in ``PrototypeSharing``; by default "uniform".
        margin: "max-min" (the default) or "max".
        limit: τ, the largest margin; by default 100.
        server_plan: how the server trains the prototypes, which it keeps; by default SGD with a rate of 0.01 in batches
            of 10 for 100 epochs. A dict changes some of these settings.
        keep_server_optimizer: whether its optimizer remembers from round to round; by default False.
    """

    weight: float = Field(10.0, ge=0)
    margin: Literal["max-min", "max"] = "max-min"
    limit: float = Field(100.0, ge=0)
    server_plan: Plan = Plan(optimizer="sgd", lr=0.01, epochs=100, batch_size=10)
    keep_server_optimizer: bool = False

    def server_models(self, server: Server) -> Declared:
        build = partial(TrainablePrototypes, *server.state["means"].shape)
        return {"prototypes": ModelSpec(build, plan=self.server_plan, keep_optimizer=self.keep_server_optimizer)}

    @exchange(FedProto.prototypes_schema)
    def prototypes(self, server: Server, answers: Answers) -> ServerSteps:
        """Trains on every uploaded prototype, then answers with what it has learned of each class somebody had."""
        payloads = [payload for _, payload in sorted(answers, key=lambda answer: answer[0])]
        centres, counts = mean_over_holders(payloads)
        y = torch.cat([payload["counts"].nonzero().squeeze(1) for payload in payloads])
        uploaded = torch.cat([payload["means"][payload["counts"] > 0] for payload in payloads])
        margin = adaptive_margin(centres[counts > 0], self.limit, self.margin)
        yield Fit(
            contrastive_loss,
            on=Samples({"x": y, "y": y, "prototype": uploaded}),
            context={"classes": torch.arange(len(counts)), "margin": torch.tensor(margin)},
            model="prototypes",
        )
        learned = yield Predict(Samples({"x": torch.arange(len(counts))}), logits=True, model="prototypes")
        counts = torch.where(counts > 0, counts, server.state["counts"])
        server.state.update(means=learned.float() * (counts > 0)[:, None], counts=counts)
        return self.current(server)
