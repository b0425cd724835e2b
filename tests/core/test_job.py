"""Jobs: which plan each parameter of a training follows, worked out by hand."""

from __future__ import annotations

import torch

from potluck.core.groups import Group, Update
from potluck.core.job import Job
from potluck.core.objectives import cross_entropy
from potluck.core.requests import Fit, Predict
from potluck.learners.network import Network
from tests.jobs import CPU, PLAN, samples
from tests.tables import cnn

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
