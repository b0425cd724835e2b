from __future__ import annotations

import pytest
import torch

from potluck.core.plan import Plan
from potluck.engines.batched.optimizers import advance, fresh
from potluck.learners.network import make_optimizer

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
    ours = parameter.detach().clone().unsqueeze(0)  # a stack of one
    moments = fresh(plan, ours)
    lr = torch.tensor([plan.lr], dtype=torch.float64)
    for _ in range(7):
        gradient = torch.randn(3, 4, dtype=torch.float64)
        parameter.grad = gradient.clone()
        theirs.step()
        advance(plan, {"w": ours}, {"w": gradient.unsqueeze(0)}, {"w": moments}, lr)
    torch.testing.assert_close(ours[0], parameter.detach(), rtol=1e-12, atol=1e-12)
    remembered = {name: value for name, value in theirs.state[parameter].items() if value is not None}
    torch.testing.assert_close({n: m[0] for n, m in moments.items()}, remembered, rtol=1e-12, atol=1e-12)
