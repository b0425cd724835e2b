"""The loss of outputs that are there already."""

from __future__ import annotations

import torch

from potluck.core.model_view import ModelView
from potluck.core.objectives import task_loss
from potluck.methods.own_loss import own_loss
from tests.tables import mlp


def test_it_is_the_task_loss_without_another_pass():
    model = ModelView(mlp(0))
    batch = {"x": torch.randn(5, 1, 6, 6).double(), "y": torch.tensor([0, 1, 2, 0, 1]), "weight": torch.rand(5)}
    torch.testing.assert_close(own_loss(model(batch["x"]), batch, {}), task_loss(model, batch, {}), rtol=0, atol=0)
