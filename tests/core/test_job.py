"""Jobs: which plan each parameter of a training follows, worked out by hand."""

from __future__ import annotations

import torch

from potluck.core.classification import Classification
from potluck.core.groups import Group, Update
from potluck.core.job import Job, columns_of, steps_of, values_of
from potluck.core.model_view import FrozenModel
from potluck.core.objectives import cross_entropy
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Predict
from potluck.core.samples import Samples
from potluck.learners.network import Network
from tests.jobs import CPU, PLAN, samples
from tests.tables import cnn, mlp

PARAMETERS = ["body.0.weight", "body.0.bias", "head.weight", "head.bias"]
SLOW, SLOWER = PLAN.replace(lr=0.01), PLAN.replace(lr=0.001)


def job(work, *groups):
    return Job("a", work, Network(cnn(0)), samples(6, 0), PLAN, seed=0, round=1, groups=groups)


def test_all_parameters_follow_the_trainings_own_plan():
    made = job(Fit())
    assert made.plans == (PLAN,)
    assert made.by_plan(PARAMETERS) == [PARAMETERS]
    assert [made.plan_of(name) for name in PARAMETERS] == [PLAN] * 4


def test_the_first_group_that_names_a_parameter_counts():
    made = job(Fit(), Group("head.bias", SLOWER), Group(["head"], SLOW))
    assert made.plans == (PLAN, SLOWER, SLOW)
    assert made.by_plan(PARAMETERS) == [["body.0.weight", "body.0.bias"], ["head.bias"], ["head.weight"]]
    assert [made.plan_of(name) for name in PARAMETERS] == [PLAN, PLAN, SLOW, SLOWER]


def test_what_does_not_change_follows_no_plan():
    made = job(Fit(only=["head"]), Group(["head.bias", "body"], SLOW))
    assert made.by_plan(PARAMETERS) == [["head.weight"], ["head.bias"]]
    assert [made.plan_of(name) for name in PARAMETERS] == [None, None, PLAN, SLOW]


def test_what_any_of_several_steps_changes_is_trained():
    steps = [Update(cross_entropy, only=["head.weight"]), Update(cross_entropy, only=["body.0.bias"])]
    assert job(Fit(steps)).by_plan(PARAMETERS) == [["body.0.bias", "head.weight"]]
    one_changes_all = [Update(cross_entropy, only=["head"]), Update(cross_entropy)]
    assert job(Fit(one_changes_all)).by_plan(PARAMETERS) == [PARAMETERS]


def test_its_learner_answers():
    on = samples(6, 0)
    with torch.no_grad():
        expected = cnn(0).eval()(on.x)
    assert torch.equal(job(Predict(on, logits=True)).answer(CPU), expected)
    assert job(Fit()).answer(CPU).steps == 2, "two epochs of six samples in batches of eight"


def test_rates_and_batches_may_differ_and_optimizers_may_not():
    assert steps_of(Plan(lr=0.1, batch_size=4, epochs=2)) == steps_of(Plan(lr=0.5, batch_size=8, epochs=1))
    assert steps_of(Plan(optimizer="sgd")) != steps_of(Plan(optimizer="adam"))


def test_columns_are_names_shapes_and_types():
    samples = Samples({"x": torch.zeros(4, 3), "y": torch.zeros(4, dtype=torch.int64)})
    assert columns_of(samples) == ((("x", (3,), "torch.float32"), ("y", (), "torch.int64")), None)
    assert columns_of(samples, inputs_alone=True) == columns_of(samples.inputs()) != columns_of(samples)


def test_of_tensors_shapes_and_types_count_and_of_plain_values_the_values():
    def key(**changes):
        return values_of({"task": Classification((0, 1)), "mu": 0.1, "start": torch.zeros(2), **changes})

    assert key() == key(start=torch.ones(2))
    different = [key(mu=0.2), key(start=torch.zeros(3)), key(start=torch.zeros(2).double()), key(more=1)]
    assert key() not in different
    assert len({*different, key(task=Classification((0, 1, 2))), key()}) == 6


def test_the_same_counts_of_what_is_nested_and_of_frozen_models():
    def key(width, value=0.0, nu=1):
        return values_of(
            {
                "teachers": [FrozenModel(Network(mlp(0, width)).weights(), mlp(0, width))],
                "by": {"nu": nu, "w": torch.tensor(value)},
            }
        )

    assert key(3) == key(3, value=1.0)
    assert len({key(3), key(4), key(3, nu=2)}) == 3


def test_nothing_is_like_nothing():
    assert values_of({}) == values_of({}) != values_of({"a": {}})
