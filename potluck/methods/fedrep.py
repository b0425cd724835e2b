"""FedRep (Collins et al., "Exploiting Shared Representations", ICML 2021): head and body by turns."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

from pydantic import Field

from potluck.core.requests import Fit, Fitted, Request
from potluck.federation.participant import Participant
from potluck.methods.body_sharing import BodySharing


class FedRep(BodySharing):
    """Algorithm 1: with the body as received the head is trained, then with the new head the body, which is sent.

    The paper trains heads alone once more after the last round, everybody's: call it with ``body_epochs=0`` for that.
    Where an epoch is a few batches, one for the body is too little: eight participants with 40 digits each reach 56.1%
    with 10 and 1 epochs, 79.0% with 5 and 5, and 73.8% alone (tests/integration/test_better_than_local.py).

    Args:
        head_epochs: epochs of the head; by default 10, as in the paper.
        body_epochs: epochs of the body; by default 1, as in the paper on CIFAR with 100 participants; 5 elsewhere.
        freeze_statistics: whether running statistics stay while the head is trained; by default False: they move, as in
            the authors' code.
        personal_layers: how many of the last layers are the head; by default 1.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "uniform", as in the paper. The authors' code weights by samples on
            FEMNIST.
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    weighting: Literal["samples", "uniform"] = "uniform"
    personal_layers: int = Field(1, ge=1)
    head_epochs: int = Field(10, ge=0)
    body_epochs: int = Field(1, ge=0)
    freeze_statistics: bool = False

    def local_work(self, me: Participant) -> Generator[Request, Any, Fitted]:
        head = me.last_layers(self.personal_layers)
        body = tuple(layer for layer in me.body if layer not in head)
        plan = me.plan.replace(epochs=self.head_epochs)
        yield Fit(only=head, plan=plan, freeze_norm_stats=self.freeze_statistics)
        fitted: Fitted = yield Fit(only=body, plan=me.plan.replace(epochs=self.body_epochs))
        return fitted
