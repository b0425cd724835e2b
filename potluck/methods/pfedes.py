"""pFedES (Yi et al., "Federated Extractor Sharing", 2023): a small extractor, of the shape of inputs, is shared."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_spec import OWN, Declared, ModelSpec
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Fitted, Request
from potluck.federation.method import Needs
from potluck.federation.participant import Participant
from potluck.federation.server import ServerModel
from potluck.methods.fedavg import Averaging
from potluck.methods.own_loss import own_loss
from potluck.methods.proxy_extractor import proxy_extractor

EXTRACTOR = "extractor"
"""The name of the extractor among a participant's models."""


class PFedES(Averaging):
    """Algorithm 1: with the extractor g as received one's own f learns x and g(x); then with the new f, g learns.

    First f descends (1 − μ)·ℓ(f(x)) + μ·ℓ(f(g(x))), then g ℓ(f(g(x))); g is sent, and averaged by samples. All begin
    with one g. A participant answers with f(x) alone; label spaces may differ. The authors' code counts test samples,
    too, and lets all participants' extractors share one momentum: not copied. Eight participants with 40 digits each
    lose by it with μ 0.5 (69.7%, 74.1% alone), and gain little with 0.2 (74.7%):
    tests/integration/test_better_than_local.py.

    Args:
        mu: μ, how much of f's training is on g(x); by default 0.5.
        extractor: g, from ``potluck.models``, as ``"package.module:callable"``, or a callable that makes one; it puts
            out what an input looks like. By default None, for the paper's: two convolutions, or linear layers where an
            input is a row of numbers, by way of 8 channels, each followed by a ReLU.
        extractor_plan: g's optimizer, rate, epochs and clipping; by default None, for the participant's plan.
        freeze_statistics: whether f's running statistics stay while g is trained; by default True: f is frozen. The
            authors' networks have none.
        aggregation: "whole": the extractor is one for all.
        weighting: as in ``WeightSharing``; by default "samples".
        batchnorm: as in ``WeightSharing``, of the extractor; by default "average".
    """

    needs = Needs(torch_module=True, one_input_shape=True, tasks="any")
    shares: ClassVar[str] = EXTRACTOR
    sends: ClassVar[Mapping[str, str]] = {
        **Averaging.sends,
        "weights": "every weight of the extractor after training; nothing of its own model",
    }

    mu: float = Field(0.5, ge=0, le=1)
    extractor: ServerModel | None = None
    extractor_plan: Plan | None = None
    freeze_statistics: bool = True
    aggregation: Literal["whole"] = "whole"
    weighting: Literal["samples", "uniform"] = "samples"

    def models(self, me: Participant) -> Declared:
        if not me.learner.shows_layers:
            return {}
        default = partial(proxy_extractor, dtype=me.network.dtype)
        return {EXTRACTOR: ModelSpec(self.extractor or default, plan=self.extractor_plan)}

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        yield Fit(learn_both, context={"mu": self.mu}, models=(OWN, EXTRACTOR), only=(OWN,))
        plan, freeze = self.extractor_plan, self.freeze_statistics
        teach = Fit(learn_extracted, models=(OWN, EXTRACTOR), only=(EXTRACTOR,), plan=plan, freeze_norm_stats=freeze)
        fitted: Fitted = yield teach
        return fitted


def learn_both(models: Mapping[str, ModelView], batch: Batch, context: Context) -> Tensor:
    """(1 − μ)·ℓ(f(x)) + μ·ℓ(f(g(x)))."""
    plain = own_loss(models[OWN](batch["x"]), batch, context)
    loss: Tensor = (1 - context["mu"]) * plain + context["mu"] * learn_extracted(models, batch, context)
    return loss


def learn_extracted(models: Mapping[str, ModelView], batch: Batch, context: Context) -> Tensor:
    """ℓ(f(g(x)))."""
    return own_loss(models[OWN](models[EXTRACTOR](batch["x"])), batch, context)
