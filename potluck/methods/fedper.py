"""FedPer (Arivazhagan et al., "Federated Learning with Personalization Layers", 2019): own last layers."""

from __future__ import annotations

from typing import Literal

from potluck.methods.body_sharing import BodySharing


class FedPer(BodySharing):
    """Algorithms 1 and 2: everyone trains the common base and its own personalization layers together.

    The base is averaged by samples; personalization layers, K_P of them, are never sent, and begin as each brought
    them. With K_P = 0 it is FedAvg. Running statistics belong to the data they are of: they stay, too.

    Args:
        personal_layers: K_P; by default 1, the head. The paper tries 1 to 4 blocks.
        aggregation: as in ``FedAvg``; by default "whole".
        weighting: as in ``FedAvg``; by default "samples".
        batchnorm: as in ``FedAvg``; by default "local statistics".
        fine_tune: as in ``FedAvg``; by default 0.
    """

    batchnorm: Literal["average", "local", "local statistics"] = "local statistics"
