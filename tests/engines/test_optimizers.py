from __future__ import annotations

import pytest
import torch

from potluck.engines.optimizers import fresh, update
from potluck.learners.network import make_optimizer
from potluck.plan import Plan

PLANS = [
    Plan(optimizer="sgd", lr=0.1),
    Plan(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0.01),
    Plan(optimizer="adam", lr=0.1),
    Plan(optimizer="adam", lr=0.1, weight_decay=0.1),
    Plan(optimizer="adamw", lr=0.1, weight_decay=0.1),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.optimizer}-{plan.momentum}-{plan.weight_decay}")
def test_steps_and_memory_are_torchs(plan):
    torch.manual_seed(0)
    parameter = torch.nn.Parameter(torch.randn(3, 4, dtype=torch.float64))
    theirs = make_optimizer(plan, [parameter])
    ours, moments = parameter.detach().clone(), fresh(plan, parameter.detach())
    lr = torch.tensor(plan.lr, dtype=torch.float64)
    for _ in range(7):
        gradient = torch.randn(3, 4, dtype=torch.float64)
        parameter.grad = gradient.clone()
        theirs.step()
        ours, moments = update(plan, ours, gradient, moments, lr)
    torch.testing.assert_close(ours, parameter.detach(), rtol=1e-12, atol=1e-12)
    remembered = {name: value for name, value in theirs.state[parameter].items() if value is not None}
    torch.testing.assert_close(moments, remembered, rtol=1e-12, atol=1e-12)
