"""Optimizers at the server (Reddi et al., "Adaptive Federated Optimization"): the mean update is a gradient."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from potluck.federation.server import Server
from potluck.methods.fedavg import FedAvg


class ServerOptimizer(FedAvg):
    """Algorithm 2: participants train as in FedAvg; from their means the server takes a step of an optimizer's.

    Δ = mean − x; m ← β₁m + (1 − β₁)Δ; v by the optimizer's rule; x ← x + η m / (√v + τ). Both moments last between
    rounds. Running statistics take the plain mean.

    Args:
        server_lr: η; by default 0.1. The paper tunes it for each task.
        beta1: β₁.
        tau: τ, how much of the step does not adapt; by default 0.001.
        start_at: what v starts at: "tau squared" (the default, as in the paper), or "zero", as in Flower and FL-bench.
    """

    server_lr: float = Field(0.1, gt=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    tau: float = Field(1e-3, gt=0)
    start_at: Literal["tau squared", "zero"] = "tau squared"

    tells_buffers: ClassVar[bool] = True

    def second_moment(self, v: Tensor, squared: Tensor) -> Tensor:
        """The new v, from the old one and Δ²."""
        raise NotImplementedError(f"{type(self).__name__} has no rule for its second moment.")

    def rate(self, round: int) -> float:
        """The rate of a round's step."""
        return self.server_lr

    def step(self, server: Server, means: dict[str, Tensor]) -> None:
        old, stepped = server.state["global"], dict(means)
        moments = {name: dict(server.state.get(name, {})) for name in ("first", "second")}
        for key in sorted(self.parameters(server) & means.keys()):
            x, change = old[key], means[key] - old[key]
            m, v = (moments[name].get(key) for name in ("first", "second"))
            m = change.new_zeros(change.shape) if m is None else m
            v = change.new_full(change.shape, 0.0 if self.start_at == "zero" else self.tau**2) if v is None else v
            m = self.beta1 * m + (1 - self.beta1) * change
            v = self.second_moment(v, change**2)
            stepped[key] = x + self.rate(server.round) * m / (v.sqrt() + self.tau)
            moments["first"][key], moments["second"][key] = m, v
        super().step(server, stepped)
        server.state.update(moments)
