"""A small common model beside everybody's own: it alone travels, and is averaged as FedAvg averages whole models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from potluck.core.model_spec import Declared, ModelSpec
from potluck.core.plan import Plan
from potluck.federation.method import Needs
from potluck.federation.participant import Participant
from potluck.federation.server import ServerModel
from potluck.methods.fedavg import Averaging

COMMON = "common"
"""The name of the common model among a participant's."""


class CommonModel(Averaging):
    """Participants train a common model together with their own; a subclass says how, in ``training``.

    Args:
        common: the common model, from ``potluck.models``, as ``"package.module:callable"``, or a callable that makes
            one; by default "mlp".
        common_plan: its optimizer, learning rate, schedule and clipping; by default None, for the participant's. What
            optimizers remember, its own too, lasts as the federation says; by default one training.
        aggregation: "whole": the common model is one for all.
        weighting: as in ``WeightSharing``; by default "samples".
        batchnorm: as in ``WeightSharing``, of the common model; by default "average".
    """

    needs = Needs(torch_module=True, one_input_shape=True, one_label_space=True)
    sends: ClassVar[Mapping[str, str]] = {
        **Averaging.sends,
        "weights": "every weight of the common model after training (without normalisation layers, if batchnorm is "
        "local); nothing of its own model",
    }

    shares: ClassVar[str] = COMMON

    common: ServerModel = "mlp"
    common_plan: Plan | None = None
    aggregation: Literal["whole"] = "whole"
    weighting: Literal["samples", "uniform"] = "samples"

    def models(self, me: Participant) -> Declared:
        return {COMMON: ModelSpec(self.common, plan=self.common_plan)}
