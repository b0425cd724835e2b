"""FML, federated mutual learning (Shen et al., 2020): a private and a common model learn from each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_spec import OWN
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.requests import Fit
from potluck.federation.participant import Participant
from potluck.methods.common_model import COMMON, CommonModel
from potluck.methods.distillation import kl
from potluck.methods.own_loss import own_loss


def mutual_losses(private: Tensor, common: Tensor, batch: Batch, context: Context) -> tuple[Tensor, Tensor]:
    """What each minimises: α·L + (1 − α)·KL(common ‖ private), and β·L + (1 − β)·KL(private ‖ common).

    What the other says is fixed, and KL sums over classes.
    """
    alpha, beta = context["alpha"], context["beta"]
    return (
        alpha * own_loss(private, batch, context) + (1 - alpha) * kl(common, private).mean(),
        beta * own_loss(common, batch, context) + (1 - beta) * kl(private, common).mean(),
    )


def mutual_loss(models: Mapping[str, ModelView], batch: Batch, context: Context) -> Tensor:
    """Both at once: neither loss moves the other's model."""
    private, common = mutual_losses(models[OWN](batch["x"]), models[COMMON](batch["x"]), batch, context)
    return private + common


class FML(CommonModel):
    """Deep mutual learning of a private model and the common "meme" model at each batch; the common one is averaged.

    A participant answers with its private model; the common one is reported beside it.

    HtFLlib fixes neither side, so that each loss also moves the other model, divides KL by the number of classes once
    more, clips gradients at 10, and has 1 for α by default, which switches learning from the other off: not copied.

    Args:
        alpha: α, the weight of the private model's own loss; by default 0.5.
        beta: β, the weight of the common model's own loss; by default 0.5.
        common: as in ``CommonModel``; by default "mlp".
        common_plan: as in ``CommonModel``; by default None.
        weighting: as in ``WeightSharing``; by default "uniform", as in the authors' code.
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    reports: ClassVar[tuple[str, ...]] = (COMMON,)

    alpha: float = Field(0.5, ge=0, le=1)
    beta: float = Field(0.5, ge=0, le=1)
    weighting: Literal["samples", "uniform"] = "uniform"

    def training(self, me: Participant) -> Fit:
        return Fit(mutual_loss, context={"alpha": self.alpha, "beta": self.beta}, models=(OWN, COMMON))
