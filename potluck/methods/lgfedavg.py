"""LG-FedAvg (Liang et al., "Think Locally, Act Globally", 2020): own extractors of features, one common head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

from potluck.federation.method import Leaving
from potluck.methods.fedavg import Averaging
from potluck.methods.head_sharing import HeadSharing


class LGFedAvg(HeadSharing, Averaging):
    """Algorithm 1: everyone trains its extractor and the common head together; the head is averaged.

    Extractors may be of any architecture with features of one width. All begin with one head, and with the extractors
    that they brought; the authors' code begins with models from FedAvg, and picks each participant's best on test data:
    not copied. By itself it gains little: eight participants with 40 digits each reach 74.3%, and 74.1% alone
    (tests/integration/test_better_than_local.py).

    Args:
        aggregation: as in ``HeadSharing``.
        weighting: as in ``WeightSharing``; by default "samples". The authors' code takes the plain mean.
        batchnorm: as in ``HeadSharing``.
    """

    needs = replace(HeadSharing.needs, tasks="any")
    sends: ClassVar[Mapping[str, str]] = {**HeadSharing.sends, "weights": "its trained head; nothing of its extractor"}
    leaves: ClassVar[Mapping[str, tuple[Leaving, ...]]] = {**HeadSharing.leaves, "weights": ("weights",)}

    weighting: Literal["samples", "uniform"] = "samples"
