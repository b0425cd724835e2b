"""Some of a stack's networks move into a group, take their steps, and move back."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

import potluck
from potluck.engines.batched.groups import SubStack, slots_of
from potluck.engines.batched.stacking import State
from potluck.methods import Local
from potluck.models import mlp


def numbered(count):
    """A stack whose networks can be told apart."""
    each = torch.arange(1.0, count + 1)
    return State(
        parameters={"w": each[:, None].repeat(1, 2)},
        buffers={"seen": torch.arange(count)},
        moments={"w": {"step": each.clone()}},
        mask={"w": torch.ones(count, 2, dtype=torch.bool)},
        context=[{"": each[:, None].clone()}],
    )


def test_who_enters_a_group_brings_everything_along():
    group = SubStack(whole := numbered(3), slots_of(whole), 2)
    group.enter((2, 0))
    assert group.state.parameters["w"].tolist() == [[3, 3], [1, 1]]
    assert group.state.buffers["seen"].tolist() == [2, 0]
    assert group.state.moments["w"]["step"].tolist() == [3, 1]
    assert group.state.mask["w"].all()
    assert group.state.context[0][""].tolist() == [[3], [1]]


def test_who_leaves_writes_back_what_steps_change_and_nothing_else():
    group = SubStack(whole := numbered(3), slots_of(whole), 2)
    group.enter((2, 0))
    for stack in (group.state.parameters["w"], group.state.moments["w"]["step"], group.state.context[0][""]):
        stack.mul_(10)
    group.leave()
    assert whole.parameters["w"].tolist() == [[10, 10], [2, 2], [30, 30]]
    assert whole.moments["w"]["step"].tolist() == [10, 2, 30]
    assert whole.context[0][""].tolist() == [[1], [2], [3]]
    assert group.members == ()


def test_a_group_stays_together_while_the_same_go_on(monkeypatch):
    entered = []
    enter = SubStack.enter
    monkeypatch.setattr(SubStack, "enter", lambda group, members: (entered.append(members), enter(group, members)))
    draw = np.random.default_rng(0)
    plan = potluck.Plan(optimizer="sgd", lr=0.1, batch_size=2)
    table = [
        potluck.Participant(
            f"p{n}",
            partial(mlp, hidden=(4,)),
            (draw.random((samples, 3), dtype=np.float32), draw.integers(0, 2, samples)),
            labels=[0, 1],
            plan=plan,
        )
        for n, samples in enumerate((4, 20, 20))
    ]
    potluck.Federation(table, Local(), engine="batched").run(1)
    assert entered == [(1, 2)], "two steps of all three, then eight of two"
