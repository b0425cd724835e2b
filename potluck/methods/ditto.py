"""Ditto (Li et al., "Fair and Robust Federated Learning Through Personalization", ICML 2021): a personal model each."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, Literal

from pydantic import Field

from potluck.core.model_spec import Declared
from potluck.core.requests import Fit, Fitted, Predict, Request
from potluck.core.samples import Samples
from potluck.federation.method import Answer, Steps
from potluck.federation.participant import Participant
from potluck.federation.server import Server
from potluck.methods.fedavg import GLOBAL, FedAvg, own_copy
from potluck.methods.proximal import REFERENCE, near, row


class Ditto(FedAvg):
    """Algorithm 1: FedAvg trains a global model w; beside it each has a personal one, v, which answers.

    v minimises F(v) + (λ/2)‖v − w‖², with w as received, not as trained. Both begin at the common start; v is never
    sent. The global model's accuracy is reported beside the personal one's. With λ = 0 everyone trains alone.

    Args:
        lam: λ; by default 1, as in the authors' scripts. They also choose it from 0.1, 1 and 2 on validation data.
        personal_epochs: epochs of the personal training in each round; by default None, for the plan's.
        aggregation: as in ``FedAvg``, of the global model; by default "whole".
        weighting: as in ``FedAvg``; by default "samples". The authors' code takes the plain mean.
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: 0: the personal model is trained in each round.
    """

    reports: ClassVar[tuple[str, ...]] = (GLOBAL,)
    shares: ClassVar[str] = GLOBAL

    lam: float = Field(1.0, ge=0)
    personal_epochs: int | None = Field(None, ge=0)
    fine_tune: Literal[0] = 0

    def models(self, me: Participant) -> Declared:
        return own_copy(me, GLOBAL)

    def join(self, me: Participant) -> Steps:
        yield from super().join(me)
        me.load(self.shared(me))
        return None

    def predict_with(self, model: str, party: Participant | Server, inputs: Samples) -> Answer:
        return (yield Predict(inputs, model=model))

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        plan = me.plan.replace(epochs=self.personal_epochs)
        yield Fit(near, context={"mu": self.lam, REFERENCE: row(self.network(me).trainable())}, plan=plan)
        fitted: Fitted = yield self.training(me)
        return fitted

    def training(self, me: Participant) -> Fit:
        return Fit(model=GLOBAL)
