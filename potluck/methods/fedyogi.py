"""FedYogi (Reddi et al., "Adaptive Federated Optimization", ICLR 2021): Yogi at the server."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from potluck.methods.server_optimizers import ServerOptimizer


class FedYogi(ServerOptimizer):
    """Algorithm 2 with v ← v − (1 − β₂)Δ² sign(v − Δ²), so that v changes by a bounded amount.

    Args:
        server_lr: as in ``ServerOptimizer``; by default 0.1.
        beta1: β₁; by default 0.9.
        tau: as in ``ServerOptimizer``; by default 0.001.
        start_at: as in ``ServerOptimizer``; by default "tau squared".
        beta2: β₂; by default 0.99.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    beta2: float = Field(0.99, ge=0, lt=1)

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        return v - (1 - self.beta2) * squared * (v - squared).sign()
