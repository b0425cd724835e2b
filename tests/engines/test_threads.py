"""Threads: sizes decide with how many of them torch computes, and whatever was set before is set again."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import potluck
from potluck.core.requests import Fit, Predict
from potluck.engines.base import suiting
from potluck.engines.threads import SMALL_STEP, Threads
from tests.tables import agree, made_data, mlp, participants

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def job(model, samples: int, batch_size: int, request=None):
    x, y = torch.zeros(samples, 100), torch.arange(samples) % 10
    plan = potluck.Plan(batch_size=batch_size)
    me = potluck.Participant("a", model, (x, y), plan=plan)
    return (request(me) if request else Fit()).addressed(me, 0, False)


def threads_inside(jobs):
    with suiting(Threads(), jobs, CPU):
        return torch.get_num_threads()


def linear():
    """2,020 operations for a sample: two for each weight, and for each bias."""
    return nn.Linear(100, 10)


def test_small_steps_have_one_thread_and_large_ones_all():
    fits = int(SMALL_STEP) // 2020
    assert threads_inside([job(linear(), fits + 1, fits)]) == 1
    assert threads_inside([job(linear(), fits + 1, fits + 1)]) == 2
    assert torch.get_num_threads() == 2


def test_steps_have_no_more_samples_than_there_are():
    assert threads_inside([job(linear(), 50, 10**6)]) == 1


def test_the_steps_of_a_stack_are_those_of_all_its_networks():
    half = int(SMALL_STEP) // 2020 * 2 // 3
    assert threads_inside([job(linear(), half, half)]) == 1
    assert threads_inside([job(linear(), half, half), job(linear(), half, half)]) == 2


def test_a_reading_counts_its_own_batches():
    wide = nn.Linear(100, 2000)
    x = torch.zeros(2000, 100)

    def read(me):
        return Predict(potluck.Samples({"x": x}))

    participant = potluck.Participant("a", wide, (x, torch.arange(2000)), plan=potluck.Plan(batch_size=1))
    assert threads_inside([Fit().addressed(participant, 0, False)]) == 1
    assert threads_inside([read(participant).addressed(participant, 0, False)]) == 2


def test_an_estimator_is_left_alone():
    from sklearn.tree import DecisionTreeClassifier

    assert threads_inside([job(DecisionTreeClassifier(), 20, 4)]) == 2


def test_a_failure_gives_the_threads_back():
    with pytest.raises(RuntimeError), suiting(Threads(), [job(linear(), 20, 4)], CPU):
        raise RuntimeError
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("engine", ["serial", "batched", "auto"])
def test_the_engines_compute_small_networks_with_one(engine):
    seen = []

    class Seen(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp(0, 8)

        def forward(self, x):
            if torch.is_grad_enabled():
                seen.append(torch.get_num_threads())
            return self.inner(x)

    people = participants([Seen().double(), Seen().double()])
    federation = potluck.Federation(
        people, potluck.methods.Local(), test=made_data(20, 9), engine=engine, device="cpu", seed=0
    )
    rows = federation.run(1).rows()
    assert set(seen) == {1}
    assert federation.engine.decisions()["cores"] == 2
    torch.set_num_threads(1)
    again = potluck.Federation(
        participants([Seen().double(), Seen().double()]),
        potluck.methods.Local(),
        test=made_data(20, 9),
        engine=engine,
        device="cpu",
        seed=0,
    )
    agree(rows, again.run(1).rows(), 1e-9)
