"""Objectives: plain functions of (model, batch, context) that return a loss. Engines can stack them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.labels import UNLABELLED
from potluck.core.model_view import ModelView

Context = Mapping[str, Any]
"""What belongs to one participant: tensors, dicts of tensors, plain values, ``FrozenModel``s."""

Objective = Callable[[ModelView, Batch, Context], Tensor]

JointObjective = Callable[[Mapping[str, ModelView], Batch, Context], Tensor]
"""An objective of several models, by name."""

AnyObjective = Objective | JointObjective

Gradients = dict[str, Tensor]
CombineGradients = Callable[[list[Gradients], Context], Gradients]
"""Combines the objectives' gradients (one dict for each) into those that the optimizer gets."""


def cross_entropy(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Cross-entropy to the labels; a ``weight`` column makes it a weighted mean."""
    losses = F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")
    if "weight" not in batch:
        return losses.mean()
    weight: Tensor = batch["weight"].to(losses.dtype)
    return (weight * losses).sum() / weight.sum()


task_loss: Objective = cross_entropy
"""The loss of plain training, as one of several objectives: ``Fit([task_loss, proximal_term])``."""


def hard_and_soft(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """MHAT eq. 4 and 6: cross-entropy to the label where there is one, to ``soft`` where there is one.

    Both sums run over samples, so with all sets mixed into one, the mean over a batch has the paper's
    proportions. Soft labels are softmax(z/T), hard ones T = 1, and there is no T² factor.
    """
    logits = model(batch["x"])
    known: Tensor = batch["y"] != UNLABELLED
    hard = F.cross_entropy(logits, batch["y"].clamp(min=0), reduction="none") * known
    soft: Tensor = -(batch["soft"] * torch.log_softmax(logits / context["temperature"], dim=-1)).sum(dim=-1)
    return (hard + soft).mean()
