from __future__ import annotations

import pytest

import potluck
from potluck.methods.local_steps import effective_steps


def test_momentum_counts_steps_by_how_far_they_go():
    plan = potluck.Plan(optimizer="sgd", momentum=0.9)
    assert effective_steps(2, plan) == pytest.approx(2.9)
    assert effective_steps(3, plan) == pytest.approx(5.61)
    assert effective_steps(0, plan) == 0
    assert effective_steps(3, potluck.Plan()) == 3
