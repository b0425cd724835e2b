"""Stacks: how large they are, and how some of a stack's networks move into a small one, step there, and go back."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import potluck
from potluck.engines.batched.stacking import Capacity, StackState, SubStack, held_once, slots_of
from potluck.learners.network import Network
from potluck.methods import Local
from potluck.models import mlp


def test_capacity_that_was_too_small_doubles():
    assert Capacity(3, 100).grown(Capacity(2, 150)) == Capacity(3, 200)
    assert Capacity(3, 100).grown(Capacity(7, 50)) == Capacity(7, 100)


def test_capacity_covers_what_is_no_larger_in_any_way():
    assert Capacity(3, 100).covers(Capacity(3, 100))
    assert not Capacity(3, 100).covers(Capacity(4, 1))
    assert not Capacity(3, 100).covers(Capacity(1, 101))


@pytest.mark.parametrize(("given", "held"), [("the same", True), ("equal", True), ("other", False)])
def test_what_is_frozen_and_equal_is_held_once(given, held):
    members = [Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Linear(3, 2))) for _ in range(3)]
    for member in members[1:]:
        member.model.load_state_dict(members[0].weights())
    assert held_once(members) == frozenset()
    for member in members:
        member.model[1].requires_grad_(False)
    members[1].model[1].weight.data = members[0].model[1].weight.data
    for member in members[2:]:
        weight = members[0].model[1].weight.data
        member.model[1].weight.data = {"the same": weight, "equal": weight.clone(), "other": weight + 1e-3}[given]
    assert held_once(members) == {"1.bias", *(["1.weight"] if held else [])}
    assert held_once(members[:1]) == {"1.weight", "1.bias"}


def numbered(count):
    """A stack whose networks can be told apart."""
    each = torch.arange(1.0, count + 1)
    return StackState(
        parameters={"w": each[:, None].repeat(1, 2)},
        buffers={"seen": torch.arange(count)},
        moments={"w": {"step": each.clone()}},
        frozen={"base": each[:, None].clone()},
        mask={"w": torch.ones(count, 2, dtype=torch.bool)},
        context=[{"": each[:, None].clone()}],
    )


def test_who_enters_a_sub_stack_brings_everything_along():
    substack = SubStack(whole := numbered(3), slots_of(whole), 2)
    substack.enter((2, 0))
    assert substack.state.parameters["w"].tolist() == [[3, 3], [1, 1]]
    assert substack.state.buffers["seen"].tolist() == [2, 0]
    assert substack.state.moments["w"]["step"].tolist() == [3, 1]
    assert substack.state.mask["w"].all()
    assert substack.state.frozen["base"].tolist() == [[3], [1]]
    assert substack.state.context[0][""].tolist() == [[3], [1]]


def test_who_leaves_writes_back_what_steps_change_and_nothing_else():
    substack = SubStack(whole := numbered(3), slots_of(whole), 2)
    substack.enter((2, 0))
    for stack in (substack.state.parameters["w"], substack.state.moments["w"]["step"], substack.state.context[0][""]):
        stack.mul_(10)
    substack.leave()
    assert whole.parameters["w"].tolist() == [[10, 10], [2, 2], [30, 30]]
    assert whole.moments["w"]["step"].tolist() == [10, 2, 30]
    assert whole.context[0][""].tolist() == [[1], [2], [3]]
    assert substack.members == ()


def test_a_sub_stack_stays_together_while_the_same_go_on(monkeypatch):
    entered = []
    enter = SubStack.enter
    monkeypatch.setattr(SubStack, "enter", lambda own, members: (entered.append(members), enter(own, members)))
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
