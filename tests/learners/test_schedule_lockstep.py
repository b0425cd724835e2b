from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from potluck.core.plan import Plan
from potluck.learners.schedule import batch_schedule, in_lockstep


def courses(sizes, epochs=2):
    plan = Plan(batch_size=4, epochs=epochs)
    return [list(batch_schedule(size, plan, seed, 1)) for seed, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 23), min_size=1, max_size=9), st.none() | st.integers(1, 9))
def test_everyone_takes_its_own_steps_in_order_once(sizes, whole):
    made = courses(sizes)
    taken = [[] for _ in made]
    for turn in in_lockstep(made, whole):
        assert len({len(step.rows) for step in turn.steps}) == 1
        for member, step in zip(turn.members, turn.steps, strict=True):
            taken[member].append(step)
    assert taken == made


def test_whoever_has_an_odd_batch_waits_for_others_with_one_like_it():
    found = [(turn.members, turn.shape[1]) for turn in in_lockstep(courses([10, 6, 10, 8], epochs=1))]
    assert found == [((0, 1, 2, 3), 4), ((0, 2, 3), 4), ((0, 1, 2), 2)]


def test_groups_of_another_size_than_the_whole_come_in_powers_of_two():
    found = Counter(turn.shape for turn in in_lockstep(courses([8] * 7 + [4], epochs=1), whole=8))
    assert found == {(8, 4): 1, (4, 4): 1, (2, 4): 1, (1, 4): 1}


def test_abreast_are_those_at_one_step_and_rate():
    first, second = in_lockstep(courses([8, 4, 8], epochs=1))
    assert first.abreast
    assert second.members == (0, 2)
    assert second.abreast
    apart = [list(batch_schedule(8, Plan(batch_size=4, lr=lr), 0, 1)) for lr in (0.1, 0.2)]
    assert not next(in_lockstep(apart)).abreast
    assert torch.equal(next(in_lockstep(apart)).steps[0].rows, apart[0][0].rows)
