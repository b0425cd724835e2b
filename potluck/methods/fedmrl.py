"""FedMRL (Yi et al., NeurIPS 2024): a small common model's feature and one's own are fused, and nested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from potluck.core.errors import RequirementsError
from potluck.core.inputs import Batch
from potluck.core.model_spec import OWN
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.requests import Fit, Tap
from potluck.core.samples import Samples
from potluck.federation.method import Answer
from potluck.federation.participant import Participant
from potluck.methods.common_features import MAP, CommonFeatures
from potluck.methods.common_model import COMMON
from potluck.methods.own_loss import own_loss


def fused_loss(models: Mapping[str, ModelView], batch: Batch, context: Context) -> Tensor:
    """Equation 9 with weights of 1: the loss of the common head on the first numbers of R, and of one's own on all."""
    taken = {name: models[name].taps(batch["x"], [context[name]])[1][context[name]] for name in (COMMON, OWN)}
    fused = models[MAP](together(taken[COMMON], taken[OWN]))
    coarse = models[COMMON].part(context["common head"], fused[:, : taken[COMMON].flatten(1).shape[1]])
    fine = models[OWN].part(context["own head"], fused)
    return own_loss(coarse, batch, context) + own_loss(fine, batch, context)


def together(common: Tensor, own: Tensor) -> Tensor:
    """Equation 5: both features in a row, the common model's first."""
    return torch.cat([common.flatten(1), own.flatten(1)], dim=1)


class FedMRL(CommonFeatures):
    """Algorithm 1: R = projector([R_common, R_own]), as wide as one's own feature, from which both heads answer.

    The common head reads the first numbers of R, as many as the common model's feature has; all four parts are trained
    together, and the common model is averaged. A participant answers with R and its own head.

    HtFLlib never saves the projector, so that it begins anew in each round: not copied. The common model's feature may
    be as wide as one's own and no wider; with equal widths (the authors' script: 500 of 500) nothing is nested. With
    little data it gains nothing: nine participants with 40 digits each reach 61.8%, and 61.7% alone
    (tests/integration/test_better_than_local.py).

    Args:
        common: as in ``CommonModel``; by default "mlp".
        common_plan: as in ``CommonModel``; by default None.
        aggregation: as in ``CommonModel``.
        weighting: as in ``WeightSharing``; by default "samples", as in the authors' code (HtFLlib: "uniform").
        batchnorm: as in ``WeightSharing``; by default "average".
    """

    needs = replace(CommonFeatures.needs, tasks="any")

    weighting: Literal["samples", "uniform"] = "samples"

    def map_between(self, me: Participant, common: int, own: int) -> nn.Linear:
        if common > own:
            raise RequirementsError(
                f"The common model's feature has {common} numbers and {me.name}'s {own}; expected no more than its own "
                f"has. Choose a narrower model: `common`."
            )
        return nn.Linear(common + own, own)

    def training(self, me: Participant) -> Fit:
        heads = {"own head": me.head, "common head": self.common_head(me)}
        return Fit(fused_loss, context={**self.feature_places(me), **heads}, models=(OWN, COMMON, MAP))

    def predict(self, me: Participant, inputs: Samples) -> Answer:
        places = self.feature_places(me)
        common = (yield Tap(inputs, at=[places[COMMON]], model=COMMON))[places[COMMON]]
        own = (yield Tap(inputs, at=[places[OWN]]))[places[OWN]]
        fused = (yield Tap(Samples({"x": together(common, own)}), at=["0"], submodules=["0"], model=MAP))["0"]
        logits = (yield Tap(Samples({"x": fused}), at=me.head[-1:], submodules=me.head))[me.head[-1]]
        return me.task.answers(logits)
