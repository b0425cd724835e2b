"""FedBN (Li et al., ICLR 2021): FedAvg without normalisation layers, which stay with their participants."""

from __future__ import annotations

from typing import Literal

from potluck.methods.fedavg import FedAvg


class FedBN(FedAvg):
    """Algorithm 1: everything is averaged but BatchNorm's weights, biases and running statistics.

    Normalisation layers are known by their type, wherever they stand. The authors' code knows them by "bn" in their
    names, which misses a ResNet's ``downsample.1`` and all in an ``nn.Sequential``. Somebody who joins later keeps the
    ones that it brought. Without normalisation layers it is FedAvg.

    Args:
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "uniform", as in the paper and the authors' code.
        batchnorm: "local".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    weighting: Literal["samples", "uniform"] = "uniform"
    batchnorm: Literal["local"] = "local"
