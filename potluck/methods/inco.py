"""InCo aggregation (Chan et al., 2024): a stage's later convolutions are corrected by those of its first block."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from potluck.federation.method import Needs
from potluck.federation.server import Server
from potluck.learners.structure import SHORTCUTS
from potluck.methods.depth import LayerPlace, place_of
from potluck.methods.fedavg import Averaging

SMALL = 1e-7
"""What the authors add to a norm before they divide by it."""


class InCo(Averaging):
    """Section 4, InCoAvg: the mean update of each layer over its holders; in later blocks of a stage it is corrected.

    A convolution of block k ≥ 1 is corrected by the last convolution of block 0 of that stage that has its shape,
    kernel by kernel, since shallow layers' updates agree more among participants. With ĝ = g/‖g‖ the update becomes
    (ĝ_k + θ·ĝ_0)·(‖g_k‖ + ‖g_0‖)/2, θ = |⟨g_k, g_0⟩| / ⟨g_0, g_0⟩, at most ``largest``, each value clipped to
    ±``clip``. This is the authors' code; the paper's theorem corrects only what points away: g_k + θ·g_0 where
    ⟨g_k, g_0⟩ < 0.

    Stages and blocks are told by names, such as ``layer2.1.conv1``; shortcuts and kernels of one value are left alone.
    The authors' code corrects ViTs' normalisation layers, too: left out.

    Args:
        variant: the correction, the "code"'s (the default) or the "theorem"'s.
        largest: the largest θ of the code; by default 5.
        clip: the largest value of a corrected update of the code; by default 0.1.
        weighting: "uniform" (the default), as in the code, or "samples".
        batchnorm: as in ``WeightSharing``; by default "average", as in the code.
    """

    needs = Needs(torch_module=True, one_label_space=True, tasks="any")
    tells_buffers: ClassVar[bool] = True

    variant: Literal["code", "theorem"] = "code"
    largest: float = Field(5.0, ge=0)
    clip: float = Field(0.1, gt=0)
    aggregation: Literal["layerwise"] = "layerwise"
    weighting: Literal["samples", "uniform"] = "uniform"

    def step(self, server: Server, means: dict[str, Tensor]) -> None:
        old = server.state["global"]
        kernels = {key: place for key, place in self._kernels(server).items() if key in means}
        updates = {key: means[key] - old[key] for key in kernels}
        first = {key: place for key, place in kernels.items() if place.number == 0}
        corrected = {}
        for key, place in kernels.items():
            alike = [base for base, one in first.items() if one.stage == place.stage and _like(old[base], old[key])]
            if place.number and alike and bool(updates[key].any()):
                corrected[key] = old[key] + self.correct(updates[key], updates[alike[-1]])
        super().step(server, means | corrected)

    def correct(self, update: Tensor, base: Tensor) -> Tensor:
        """The corrected update of one convolution, each kernel by the same one of its base."""
        g, g0 = update.flatten(2), base.flatten(2)
        along, square = (g * g0).sum(dim=2, keepdim=True), g0.square().sum(dim=2, keepdim=True)
        if self.variant == "theorem":
            away = (along < 0) & (square > 0)
            return (g + torch.where(away, -along / square, 0.0) * g0).view_as(update)
        theta = (along.abs() / (square + SMALL)).clamp(max=self.largest)
        norm, norm0 = (one.norm(dim=2, keepdim=True) for one in (g, g0))
        mixed = g / (norm + SMALL) + theta * g0 / (norm0 + SMALL)
        corrected: Tensor = mixed * (norm + norm0) / 2
        return corrected.clamp(-self.clip, self.clip).view_as(update)

    def _kernels(self, server: Server) -> dict[str, LayerPlace]:
        """The keys of the convolutions in the blocks of stages, shortcuts left out, by name."""
        places = {key: place_of(key.rpartition(" ")[0]) for key in sorted(self.parameters(server))}
        return {
            key: place
            for key, place in places.items()
            if place.number is not None
            and SHORTCUTS.isdisjoint(inside := place.inner.split(".")[:-1])
            and inside
            and _is_kernel(server.state["global"][key])
        }


def _like(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _is_kernel(entry: Tensor) -> bool:
    """Whether it is a convolution's weight with more than one value for each pair of channels."""
    return math.prod(entry.shape[2:]) > 1
