"""Several networks as one: what each of them remembers stays with it."""

from __future__ import annotations

import torch
from torch import nn

from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.requests import Fit
from potluck.core.samples import Samples
from potluck.learners.joint import JointNetwork
from potluck.learners.network import Network

SAMPLES = Samples({"x": torch.randn(6, 2), "y": torch.tensor([0, 1, 0, 1, 0, 1])})


def both(models, batch, context):
    return sum(nn.functional.cross_entropy(model(batch["x"]), batch["y"]) for model in models.values())


def trained(joint, keep=True, fresh=(), **settings):
    work = Fit(both, models=tuple(joint.parts), **settings)
    plan = Plan(lr=0.1, batch_size=3)
    job = Job("p0", work, joint, SAMPLES, plan, 1, 1, keep_optimizer=keep, fresh=frozenset(fresh))
    return joint.fit(job, torch.device("cpu"))


def two():
    return JointNetwork({name: Network(nn.Linear(2, 2)) for name in ("own", "shared")})


def test_each_network_is_trained_and_remembers_its_own():
    joint = two()
    before = {name: part.weights()["weight"] for name, part in joint.parts.items()}
    assert trained(joint).steps == 2
    for name, part in joint.parts.items():
        assert not torch.equal(part.weights()["weight"], before[name])
        assert set(part.optimizer_state) == {"weight", "bias"}
        assert part.optimizer_state["weight"]["step"] == 2


def test_those_that_start_anew_remember_nothing():
    joint = two()
    trained(joint, fresh=["shared"])
    assert joint.parts["own"].optimizer_state["weight"]["step"] == 2
    assert joint.parts["shared"].optimizer_state == {}
    trained(two(), keep=False)


def test_what_is_not_trained_stays_and_keeps_its_memory():
    joint = two()
    trained(joint)
    before = joint.parts["own"].weights()["weight"]
    trained(joint, only="shared")
    assert torch.equal(joint.parts["own"].weights()["weight"], before)
    steps = {name: part.optimizer_state["weight"]["step"] for name, part in joint.parts.items()}
    assert steps == {"own": 2, "shared": 4}


def test_it_is_of_these_networks_and_no_others():
    joint = two()
    assert joint.is_of(joint.parts)
    assert not joint.is_of({**joint.parts, "shared": Network(nn.Linear(2, 2))})
    joint.parts["own"].model = nn.Linear(2, 2)
    assert not joint.is_of(joint.parts)


def test_what_one_does_besides_computing_the_whole_does():
    parts = {"own": Network(nn.Linear(2, 2)), "shared": Network(nn.Sequential(nn.Dropout(), nn.Linear(2, 2)))}
    assert JointNetwork(parts).probe(SAMPLES, Plan()).draws
    assert not two().probe(SAMPLES, Plan()).draws


def test_memory_is_handed_over_part_by_part():
    joint, other = two(), two()
    trained(joint)
    other.take_memory(joint.memory())
    assert other.parts["shared"].optimizer_state == joint.parts["shared"].optimizer_state
