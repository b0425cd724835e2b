"""Objectives: plain functions of (net, batch, given) that return a loss. Engines can stack them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.labels import UNLABELLED
from potluck.core.model_view import Net
from potluck.core.samples import Batch

Given = Mapping[str, Any]
"""What belongs to one participant: tensors, dicts of tensors, plain values, frozen companion models."""

Objective = Callable[[Net, Batch, Given], Tensor]

Gradients = dict[str, Tensor]
Rule = Callable[[list[Gradients], Given], Gradients]
"""What becomes of the objectives' gradients (one dict for each) before the optimizer sees them."""


def cross_entropy(net: Net, batch: Batch, given: Given) -> Tensor:
    """Cross-entropy to the labels; a ``weight`` column makes it a weighted mean."""
    losses = F.cross_entropy(net(batch["x"]), batch["y"], reduction="none")
    if "weight" not in batch:
        return losses.mean()
    weight = batch["weight"].to(losses.dtype)
    return (weight * losses).sum() / weight.sum()


def hard_and_soft(net: Net, batch: Batch, given: Given) -> Tensor:
    """MHAT eq. 4 and 6: cross-entropy to the label where there is one, to ``soft`` where there is one.

    Both sums run over samples, so with all sets mixed into one, the mean over a batch keeps the paper's
    proportions. Soft labels are softmax(z/T), hard ones T = 1, and there is no T² factor.
    """
    logits = net(batch["x"])
    known = batch["y"] != UNLABELLED
    hard = F.cross_entropy(logits, batch["y"].clamp(min=0), reduction="none") * known
    soft = -(batch["soft"] * torch.log_softmax(logits / given["temperature"], dim=-1)).sum(dim=-1)
    return (hard + soft).mean()
