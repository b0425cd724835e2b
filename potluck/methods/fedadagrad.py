"""FedAdagrad (Reddi et al., "Adaptive Federated Optimization", ICLR 2021): Adagrad at the server."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from potluck.methods.server_optimizers import ServerOptimizer


class FedAdagrad(ServerOptimizer):
    """Algorithm 2 with v ← v + Δ².

    Args:
        server_lr: as in ``ServerOptimizer``; by default 0.1.
        beta1: β₁; by default 0, as in the paper. FL-bench has 0.9.
        tau: as in ``ServerOptimizer``; by default 0.001.
        start_at: as in ``ServerOptimizer``; by default "tau squared".
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    beta1: float = Field(0.0, ge=0, lt=1)

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        return v + squared
