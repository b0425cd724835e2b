"""Sharing all of a network but its last layers, which stay with their participants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from potluck.federation.method import Needs
from potluck.federation.participant import Participant
from potluck.methods.fedavg import FedAvg


class BodySharing(FedAvg):
    """FedAvg of all layers but the last ones. Where these are personal, label spaces may differ.

    Args:
        personal_layers: how many of the last layers with parameters stay with their participant; by default 1, the
            head, which is the last one or what its owner named. With 0 all are shared.
        aggregation: as in ``FedAvg``; by default "whole", for networks that differ in their personal layers alone.
        weighting: as in ``FedAvg``.
        batchnorm: as in ``FedAvg``.
        fine_tune: as in ``FedAvg``; by default 0.
    """

    sends: ClassVar[Mapping[str, str]] = {
        **FedAvg.sends,
        "weights": "every weight of its trained model but those of its last layers, as many as are personal (without "
        "normalisation layers, if batchnorm is local)",
    }

    personal_layers: int = Field(1, ge=0)

    def requires(self) -> Needs:
        needs = super().requires()
        if not self.personal_layers:
            return needs
        return replace(needs, head=True, own_layers=self.personal_layers, one_label_space=False)

    def personal(self, me: Participant) -> set[str]:
        personal: set[str] = me.network.entries_in(me.last_layers(self.personal_layers))
        return super().personal(me) | personal
