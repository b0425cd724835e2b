"""Means of what a network says of each class while it is trained: a further model adds up, and learns nothing."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from potluck.core.model_view import ModelView
from potluck.core.payload import Payload

TALLY = "tally"
"""Its name among a participant's models, trained together with what it listens to."""


class ClassTally(nn.Module):
    """Adds up what a network says of each class while it is trained; it learns nothing itself.

    Args:
        classes: how many classes.
    """

    sums: Tensor
    counts: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(classes, classes))
        self.register_buffer("counts", torch.zeros(classes))

    def forward(self, x: Tensor) -> Tensor:
        """Adds logits, each in a row with which class it is of: 1 for that and 0 for all others."""
        logits, classes = x.chunk(2, dim=1)
        if self.training:
            self.sums += classes.T @ logits
            self.counts += classes.sum(dim=0)
        return logits


def count_in(tally: ModelView, logits: Tensor, y: Tensor) -> None:
    """Adds the logits of a batch."""
    classes = y[:, None] == torch.arange(logits.shape[1], device=logits.device)
    tally(torch.cat([logits.detach(), classes.to(logits.dtype)], dim=1))


def met_means(tally: Mapping[str, Tensor]) -> Payload:
    """The means of what was added up, as they travel."""
    means, counts = tally["sums"] / tally["counts"].clamp(min=1)[:, None], tally["counts"].clamp(max=1)
    return Payload({"means": means.float(), "counts": counts.long()})
