"""Objectives: plain functions of (model, batch, context) that return a loss. Engines can stack them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from potluck.core.classification import Classification
from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.tasks import Task, weighted_mean

Context = Mapping[str, Any]
"""What belongs to one participant: tensors, dicts of tensors, plain values, ``FrozenModel``s."""

Objective = Callable[[ModelView, Batch, Context], Tensor]

JointObjective = Callable[[Mapping[str, ModelView], Batch, Context], Tensor]
"""An objective of several models, by name."""

AnyObjective = Objective | JointObjective

Gradients = dict[str, Tensor]
CombineGradients = Callable[[list[Gradients], Context], Gradients]
"""Combines the objectives' gradients (one dict for each) into those that the optimizer gets."""


TASK = "task"
"""Where an objective's context holds the task of whoever trains, on encoded targets. Every Fit puts it there."""

PLAIN = Classification()


def task_of(context: Context) -> Task:
    """The task of whoever trains, on encoded targets; outside of a federation classification."""
    found: Task = context.get(TASK, PLAIN)
    return found


def task_loss(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """The loss of plain training: the task's. A ``weight`` column makes it a weighted mean.

    It is an objective, and one may add to it: ``task_loss(model, batch, context) + context["mu"] * distance``.
    """
    return task_of(context).loss(model(batch["x"]), batch["y"], batch.get("weight"))


def cross_entropy(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """Cross-entropy to the labels, whatever the task; a ``weight`` column makes it a weighted mean."""
    losses = F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")
    return weighted_mean(losses, batch.get("weight"))


def hard_and_soft(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """MHAT eq. 4 and 6: the task's loss where there is a target, the distance to ``soft`` where there is one.

    Both sums run over samples, so with all sets mixed into one, the mean over a batch has the paper's
    proportions. Soft labels are softmax(z/T), hard ones T = 1, and there is no T² factor.
    """
    task, outputs = task_of(context), model(batch["x"])
    return (task.losses(outputs, batch["y"]) + task.distances(outputs, batch["soft"], context["temperature"])).mean()
