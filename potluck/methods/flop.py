"""FLOP (Yang et al., "Federated Learning on Medical Datasets using Partial Networks", KDD 2021): the head stays."""

from __future__ import annotations

from typing import Literal

from potluck.methods.body_sharing import BodySharing


class FLOP(BodySharing):
    """Everyone shares a part of its network, and puts its private part in front of the mean before it trains.

    The mean is uniform, and normalisation layers are shared like the rest. These are its differences to FedPer.

    Args:
        personal_layers: how many of the last layers are private; by default 1, the head.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "uniform".
        batchnorm: as in ``FedAvg``; by default "average".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    weighting: Literal["samples", "uniform"] = "uniform"
