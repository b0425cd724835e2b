"""The proximal term: how far a network's parameters have moved from where they were, squared."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from potluck.core.inputs import Batch
from potluck.core.model_view import ModelView
from potluck.core.objectives import Context, task_loss

REFERENCE = "reference"
"""Under which name an objective's context holds the parameters, as one row, that a network stays close to."""


def row(parameters: Mapping[str, Tensor]) -> Tensor:
    """All parameters in one row, so that to compare two models takes one operation and not one for each tensor."""
    return torch.cat([parameters[name].detach().flatten() for name in sorted(parameters)])


def squared_distance(model: ModelView, reference: Tensor) -> Tensor:
    """‖w − w_reference‖² over all trainable parameters; ``reference`` is a ``row``."""
    own = torch.cat([model.parameters[name].flatten() for name in sorted(model.parameters)])
    apart: Tensor = ((own - reference) ** 2).sum()
    return apart


def near(model: ModelView, batch: Batch, context: Context) -> Tensor:
    """F(w) + (μ/2)‖w − w_reference‖²: the task's loss with a proximal term."""
    term: Tensor = context["mu"] / 2 * squared_distance(model, context[REFERENCE])
    return task_loss(model, batch, context) + term
