"""FedProx (Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020): FedAvg with a proximal term."""

from __future__ import annotations

from pydantic import Field

from potluck.core.requests import Fit
from potluck.federation.participant import Participant
from potluck.methods.fedavg import FedAvg
from potluck.methods.proximal import REFERENCE, near, row


class FedProx(FedAvg):
    """Algorithm 2: local training minimises F_k(w) + (μ/2)‖w − w_global‖², over parameters, not running statistics.

    Devices that do less work (γ-inexact solutions) are participants whose plans have fewer epochs. With μ = 0 it is
    FedAvg. The paper averages uniformly over devices that are drawn by their number of samples; here all or some take
    part, and count by their samples, as FedAvg's do; ``weighting="uniform"`` is the paper's mean.

    Args:
        mu: μ; by default 0.01. The paper's best on its five sets are 1, 1, 1, 0.001 and 0.01.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    mu: float = Field(0.01, ge=0)

    def training(self, me: Participant) -> Fit:
        return Fit(near, context={"mu": self.mu, REFERENCE: row(me.network.trainable())})
