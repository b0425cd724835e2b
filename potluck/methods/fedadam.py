"""FedAdam (Reddi et al., "Adaptive Federated Optimization", ICLR 2021): Adam at the server."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from potluck.methods.server_optimizers import ServerOptimizer


class FedAdam(ServerOptimizer):
    """Algorithm 2 with v ← β₂v + (1 − β₂)Δ².

    The paper has no correction of the moments' bias. Flower has one, η·√(1 − β₂^(t+1)) / (1 − β₁^(t+1)) in round t, and
    starts at v = 0: ``bias_correction=True, start_at="zero"``. With β₁ = 0, β₂ = 1 and η = 2τ it is FedAvg.

    Args:
        server_lr: as in ``ServerOptimizer``; by default 0.1.
        beta1: β₁; by default 0.9.
        tau: as in ``ServerOptimizer``; by default 0.001.
        start_at: as in ``ServerOptimizer``; by default "tau squared".
        beta2: β₂; by default 0.99. FL-bench has 0.999.
        bias_correction: whether the rate is corrected as in Flower; by default False.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    beta2: float = Field(0.99, ge=0, le=1)
    bias_correction: bool = False

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * squared

    def rate(self, round: int) -> float:
        if not self.bias_correction or self.beta2 == 1:
            return self.server_lr
        return float(self.server_lr * (1 - self.beta2 ** (round + 1)) ** 0.5 / (1 - self.beta1 ** (round + 1)))
