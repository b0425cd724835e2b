"""Random transforms and random Datasets: each participant's draws are its own, the same on every engine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier
from torch import nn
from torch.utils.data import Dataset

import potluck
from potluck.core.errors import SettingsError
from potluck.core.job import Job
from potluck.core.plan import Plan
from potluck.core.requests import Fit, Predict
from potluck.engines import Batched, Serial
from potluck.engines.auto.workers import Forked, answer_in_workers
from potluck.learners.network import Network
from potluck.learners.schedule import batch_of, batch_schedule
from potluck.methods import CoFED, FedAvg, Local
from tests.jobs import CPU, samples
from tests.tables import PLAN, agree, made_data, mlp, weights_agree

TEST = made_data(20, 50)
SIZES = (20, 13, 20, 30)


def shaken(x):
    return x + torch.randn(x.shape, dtype=x.dtype)


RANDOM = PLAN.replace(transform=shaken)


class Augmented(Dataset[tuple[torch.Tensor, int]]):
    """Flips its items at random, by each of the global generators in turn."""

    def __init__(self, rows, seed):
        self.x, self.y = made_data(rows, seed)
        self.reads = 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        self.reads += 1
        noise = torch.randn(self.x[index].shape).double() + np.random.normal()
        return torch.from_numpy(self.x[index]) + noise, int(self.y[index])


def dropping(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3)).double()


def jobs(plan=RANDOM, data=samples, model=mlp, plans=None):
    made = [Network(model(i)) for i in range(len(SIZES))]
    return [
        Job(f"p{i}", Fit(), one, data(size, i), plan, seed=i, round=1)
        for i, (one, size) in enumerate(zip(made, SIZES, strict=True))
    ]


def items(rows, seed):
    return potluck.Participant("p", mlp(0), Augmented(rows, seed), labels=range(3)).data


WAYS = {
    "serial": lambda work: Serial(CPU).answer(work),
    "batched": lambda work: Batched(CPU).answer(work),
    "workers": lambda work: answer_in_workers([Forked(job) for job in work]),
}


@pytest.mark.parametrize(
    "plan", [RANDOM, PLAN.replace(transform=lambda x: x * (torch.rand(len(x)) > 0.5)[:, None, None, None])]
)
@pytest.mark.parametrize("data", [samples, items], ids=["data", "a random Dataset"])
@pytest.mark.parametrize("way", ["batched", "workers"])
def test_every_engine_draws_the_same(plan, data, way, monkeypatch):
    if way == "workers" and torch.cuda.is_initialized():
        pytest.skip("a process that has begun to use CUDA cannot be forked")
    monkeypatch.setattr("potluck.engines.auto.workers.cores", lambda: 2)
    alone, others = jobs(plan, data), jobs(plan, data)
    Serial(CPU).answer(alone)
    with monkeypatch.context() as patch:
        patch.setattr("potluck.engines.base.timed_alone", None)
        WAYS[way](others)
    for one, other in zip(alone, others, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-9, atol=1e-9)


def test_a_transform_draws_from_participant_round_and_step():
    def drawn(seed, number):
        job = Job("p", Fit(), Network(mlp(0)), samples(20, 0), RANDOM, seed=seed, round=1)
        step = list(batch_schedule(20, RANDOM, seed, 1))[number]
        return batch_of(job, step, torch.float64)["x"] - samples(20, 0).x[step.rows]

    assert torch.equal(drawn(1, 0), drawn(1, 0))
    assert not torch.equal(drawn(1, 0), drawn(1, 1))
    assert not torch.equal(drawn(1, 0), drawn(2, 0))


def test_what_a_transform_draws_leaves_dropouts_draws_alone():
    """A transform that draws and changes nothing trains what no transform trains."""
    still = PLAN.replace(transform=lambda x: x + 0 * torch.rand(()))
    for way in ("serial", "batched"):
        one, other = jobs(still, model=dropping), jobs(PLAN, model=dropping)
        WAYS[way](one), WAYS[way](other)
        for mine, theirs in zip(one, other, strict=True):
            torch.testing.assert_close(mine.learner.weights(), theirs.learner.weights(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("engine", [Serial, Batched])
@pytest.mark.parametrize("count", [1, 2])
def test_a_prediction_through_a_random_transform_is_refused(engine, count):
    work = [
        Job(f"p{i}", Predict(samples(9, 1)), Network(mlp(i)), samples(9, 1), RANDOM, seed=i, round=1)
        for i in range(count)
    ]
    with pytest.raises(SettingsError, match=r"p0: the plan's transform .*shaken draws random numbers.*`augment`"):
        engine(CPU).answer(work)


def test_who_would_predict_through_a_random_transform_is_told_when_it_joins():
    people = [potluck.Participant("clinic", mlp(0), made_data(20, 0), plan=RANDOM)]
    with pytest.raises(SettingsError, match="clinic: the plan's transform"):
        potluck.Federation(people, Local(), test=TEST)


def test_who_only_trains_may_have_a_random_transform():
    runs = []
    for engine in ("serial", "batched"):
        people = [potluck.Participant(f"p{i}", mlp(i), made_data(20, i), plan=RANDOM) for i in range(3)]
        runs.append((potluck.Federation(people, FedAvg(), engine=engine).run(2).rows(), people))
    agree(runs[0][0], runs[1][0], 1e-9)
    weights_agree(runs[0][1], runs[1][1], 1e-9)


def federation(method, engine="serial", **settings):
    people = [
        potluck.Participant(f"p{i}", mlp, Augmented(size, i), plan=PLAN, labels=range(3), validation=0.2)
        for i, size in enumerate(SIZES)
    ]
    if isinstance(method, CoFED):
        people.append(potluck.Participant("tree", DecisionTreeClassifier(), Augmented(20, 9), labels=range(3)))
    for person in people[: len(SIZES)]:
        person.brought_model = lambda input_shape, classes: mlp(None)
    return potluck.Federation(people, method, public=made_data(30, 60), test=TEST, seed=3, engine=engine, **settings)


@pytest.mark.parametrize("method", [FedAvg(), CoFED()], ids=str)
def test_a_random_dataset_gives_one_history_on_every_engine_and_from_disk(method):
    reference = federation(method).run(2).rows()
    agree(reference, federation(method, "batched").run(2).rows(), 1e-9)
    agree(reference, federation(method, storage="disk", max_concurrent=2).run(2).rows(), 0)


def test_a_run_on_a_random_dataset_resumes(tmp_path):
    unbroken = federation(FedAvg()).run(3).rows()
    federation(FedAvg()).run(1, run_dir=tmp_path)
    agree(unbroken, federation(FedAvg()).run(3, run_dir=tmp_path, resume=True).rows(), 0)


@pytest.mark.parametrize("engine", [Serial, Batched])
def test_each_item_is_read_anew_once_an_epoch(engine):
    sets = [Augmented(20, i) for i in range(2)]
    people = [potluck.Participant(f"p{i}", mlp(i), one, labels=range(3)) for i, one in enumerate(sets)]
    plan = Plan(optimizer="sgd", epochs=3, batch_size=8)
    work = [Job(p.name, Fit(), p.learner, p.data, plan, seed=1, round=1) for p in people]
    before = [one.reads for one in sets]
    engine(CPU).answer(work)
    assert [one.reads - then for one, then in zip(sets, before, strict=True)] == [60, 60]


def test_epochs_differ_and_are_those_of_the_seed():
    own, plan = items(20, 0), Plan(epochs=2, batch_size=20)

    def epochs(seed):
        job = Job("p", Fit(), Network(mlp(0)), own, plan, seed=seed, round=1)
        found = []
        for step in batch_schedule(20, plan, seed, 1):
            x = torch.empty_like(own.x)
            x[step.rows] = batch_of(job, step, torch.float64)["x"]
            found.append(x)
        return found

    first, second = epochs(1)
    assert not torch.equal(first, second)
    assert torch.equal(epochs(1)[1], second)
    assert not torch.equal(epochs(2)[0], first)


def test_an_estimator_reads_a_random_dataset_anew_each_time():
    seen = []

    class Seeing:
        def fit(self, x, y):
            seen.append(x)

        def predict(self, x):
            return np.zeros(len(x), dtype=int)

    person = potluck.Participant("p", Seeing(), Augmented(20, 0), labels=range(3))
    for seed in (1, 1, 2):
        Serial(CPU).answer([Job("p", Fit(), person.learner, person.data, Plan(), seed, 1)])
    one, same, other = seen
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
