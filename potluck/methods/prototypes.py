"""Class prototypes: means of features, or of answers, over the samples of each class, and their mean over everybody."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from potluck.core.payload import Payload
from potluck.core.schema import Schema, TensorSpec


def class_means(values: Tensor, y: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The mean row of each class (zeros where there is none), and how many rows it has."""
    rows = values.flatten(1).double()
    counts = y.bincount(minlength=classes)
    sums = rows.new_zeros(classes, rows.shape[1]).index_add(0, y, rows)
    return (sums / counts.clamp(min=1)[:, None]).float(), counts


def class_means_payload(values: Tensor, y: Tensor, classes: int, weighting: str = "uniform") -> Payload:
    """Class means as they travel. Unless they are weighted by samples, counts only tell which classes there are."""
    means, counts = class_means(values, y, classes)
    return Payload({"means": means, "counts": counts if weighting == "samples" else counts.clamp(max=1)})


def class_means_schema(classes: int, width: int, weighting: str = "uniform") -> Schema:
    """What such a payload must look like. Where all count the same, nobody may count more."""
    counts = TensorSpec((classes,), torch.int64, low=0, high=None if weighting == "samples" else 1)
    return Schema({"means": TensorSpec((classes, width)), "counts": counts})


def mean_over_holders(payloads: Iterable[Payload]) -> tuple[Tensor, Tensor]:
    """The mean of each class over those who have it, weighted by their counts, and the sum of the counts."""
    total, count = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.int64)
    for payload in payloads:
        total, count = total + payload["means"].double() * payload["counts"][:, None], count + payload["counts"]
    return total / count.clamp(min=1)[..., None], count
