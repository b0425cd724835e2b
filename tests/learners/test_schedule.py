from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.requests import Fit
from potluck.core.samples import Samples
from potluck.learners.network import Network
from potluck.learners.schedule import batch_of, batch_schedule, epoch_means, steps_in


def sizes(samples, **settings):
    return [len(step.rows) for step in batch_schedule(samples, Plan(**settings), seed=1, round=1)]


def batch(work=None, dtype=torch.float32, number=0, seed=1, samples=None, **settings):
    samples = samples or Samples({"x": torch.arange(20.0).reshape(10, 2), "y": torch.arange(10)})
    plan = Plan(batch_size=4, **settings)
    job = Job("p", work or Fit(), Network(nn.Linear(2, 2)), samples, plan, seed=seed, round=1)
    step = list(batch_schedule(len(samples), plan, seed, 1))[number]
    found = batch_of(job, step, dtype)
    return step, {**found, "x": plan.inputs(found["x"], dtype)}


@settings(deadline=None)
@given(samples=st.integers(1, 40), batch_size=st.integers(1, 12), epochs=st.integers(0, 3))
def test_every_epoch_sees_every_sample_once(samples, batch_size, epochs):
    steps = list(batch_schedule(samples, Plan(batch_size=batch_size, epochs=epochs), seed=1, round=1))
    assert [step.number for step in steps] == list(range(steps_in(samples, Plan(batch_size=batch_size, epochs=epochs))))
    for epoch in range(epochs):
        seen = torch.cat([step.rows for step in steps if step.epoch == epoch])
        assert sorted(seen.tolist()) == list(range(samples))
    assert {step.epoch for step in steps} == set(range(epochs))


@pytest.mark.parametrize(
    ("samples", "expected"),
    [(8, [4, 4]), (10, [4, 4, 2]), (9, [4, 5]), (5, [5]), (4, [4]), (3, [3]), (1, [1])],
)
def test_a_last_batch_of_one_sample_joins_the_batch_before(samples, expected):
    assert sizes(samples, batch_size=4) == expected


def test_batches_of_one_end_with_a_batch_of_two():
    assert sizes(4, batch_size=1) == [1, 1, 2]


def test_nothing_to_train_on_or_no_epochs_are_no_steps():
    assert sizes(0, batch_size=4) == []
    assert sizes(10, epochs=0) == []
    assert steps_in(0, Plan()) == steps_in(10, Plan(epochs=0)) == 0


def orders(seed, epochs=2):
    return [step.rows.tolist() for step in batch_schedule(30, Plan(batch_size=30, epochs=epochs), seed, 1)]


def test_the_order_comes_from_seed_and_epoch():
    assert orders(1) == orders(1)
    assert orders(1) != orders(2)
    assert orders(1)[0] != orders(1)[1]
    assert orders(1, epochs=1) == orders(1)[:1]


def test_the_rate_follows_the_schedule_over_the_whole_training():
    steps = batch_schedule(8, Plan(lr=0.8, epochs=2, batch_size=4, schedule="linear"), seed=1, round=1)
    assert [step.lr for step in steps] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_the_rate_may_follow_the_round():
    plan = Plan(lr=1.0, schedule=lambda progress, round: 1 / round)
    assert [step.lr for step in batch_schedule(8, plan, seed=1, round=4)] == [0.25]


def test_a_batch_holds_the_rows_of_every_column():
    step, found = batch(number=1)
    assert found["y"].tolist() == step.rows.tolist()
    assert torch.equal(found["x"], torch.stack([2.0 * step.rows, 2.0 * step.rows + 1], dim=1))


def test_a_batch_is_in_the_networks_precision():
    assert batch(dtype=torch.float64)[1]["x"].dtype == torch.float64


def test_augmentation_sees_stored_inputs_before_they_are_scaled():
    seen = []

    def brighten(x, generator):
        seen.append(x.dtype)
        return x + 51

    stored = Samples({"x": torch.full((10, 2, 1), 204, dtype=torch.uint8)})
    _, found = batch(augment=brighten, samples=stored)
    assert seen == [torch.uint8]
    assert found["x"].unique().tolist() == [1.0]


def test_augmentation_draws_from_the_seed_and_the_step():
    def shake(x, generator):
        return torch.rand(x.shape, generator=generator)

    def draw(**settings):
        return batch(augment=shake, **settings)[1]["x"]

    assert torch.equal(draw(), draw())
    assert not torch.equal(draw(), draw(number=1))
    assert not torch.equal(draw(), draw(seed=2))


def test_draws_have_a_row_of_the_shape_asked_for_for_each_sample():
    _, found = batch(Fit(noise={"noise": (3, 2), "coin": ()}), dtype=torch.float64, number=2)
    assert found["noise"].shape == (2, 3, 2)
    assert found["coin"].shape == (2,)
    assert found["noise"].dtype == torch.float64


def test_draws_are_standard_normal_and_differ_by_name_step_and_seed():
    def draw(name="noise", **settings):
        return batch(Fit(noise={name: (2000,)}), **settings)[1][name]

    noise = draw()
    assert noise.mean().abs() < 0.05
    assert (noise.std() - 1).abs() < 0.05
    assert torch.equal(draw(), noise)
    for other in (draw("more"), draw(number=1), draw(seed=2)):
        assert not torch.equal(other, noise)


def test_losses_become_a_mean_for_each_epoch_and_objective():
    losses = torch.tensor([[1.0, 10.0], [3.0, 20.0], [5.0, 60.0]])
    assert epoch_means(losses, [0, 0, 1]) == ((2.0, 15.0), (5.0, 60.0))
