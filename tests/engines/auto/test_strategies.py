"""The automatic engine on a CPU: every way gives the same result, and the fastest is found, kept and used."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from typing import get_args

import pytest
import torch
from torch import nn

from potluck.core.plan import Plan
from potluck.core.requests import Fit, Job
from potluck.engines import Auto, Serial
from potluck.engines.auto import engine as auto
from potluck.engines.auto import strategies as ways
from potluck.engines.auto import workers as apart
from potluck.engines.auto.strategies import Choices, Way, kind_of, ways_for
from potluck.engines.auto.workers import Apart, answer_apart
from potluck.learners.network import Network
from tests.core.test_requests import samples
from tests.tables import cnn, mlp

CPU = torch.device("cpu")
PLAN = Plan(optimizer="adam", lr=0.01, epochs=2, batch_size=8)


def jobs(*builds, keep_optimizer=False):
    return [
        Job(f"p{i}", Fit(), Network(build(i)), samples(20 + i, i), PLAN, seed=i, round=1, keep_optimizer=keep_optimizer)
        for i, build in enumerate(builds)
    ]


@pytest.fixture
def two_workers(monkeypatch):
    """Tests run with one thread; workers are as many as threads."""
    for module in (apart, auto, ways):
        monkeypatch.setattr(module, "workers", lambda: 2)


def same(left, right, tolerance=1e-10):
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(one.learner.optimizer_state, other.learner.optimizer_state)


@pytest.mark.parametrize("way", get_args(Way))
def test_every_way_gives_the_serial_result(way, two_workers, monkeypatch):
    alone, mine = (jobs(cnn, cnn, cnn, mlp, mlp, keep_optimizer=True) for _ in range(2))
    expected = Serial(CPU).answer(alone)
    monkeypatch.setattr(auto, "ways_for", lambda job, **_: [way])
    answers = Auto(CPU).answer(mine)
    same(alone, mine)
    assert [answer.steps for answer in answers] == [answer.steps for answer in expected]
    assert all(entry.is_contiguous() for job in mine for entry in job.learner.weights().values())


def test_lone_architectures_run_beside_each_other(two_workers, monkeypatch):
    """Trainings that are like no other are not stacked, and still need not wait for each other."""
    monkeypatch.setattr(auto, "ways_for", lambda job, **_: ["apart"])
    seen = []
    monkeypatch.setattr(auto, "answer_apart", lambda work: (seen.append(len(work)), answer_apart(work))[1])
    alone, mine = jobs(cnn, mlp), jobs(cnn, mlp)
    Serial(CPU).answer(alone)
    Auto(CPU).answer(mine)
    assert seen == [2]
    same(alone, mine)


class Fragile(nn.Module):
    """Ends its process unless that is the one it was made in."""

    def __init__(self, seed, how):
        super().__init__()
        self.body, self.how, self.home = cnn(seed), how, os.getpid()

    def forward(self, x):
        if os.getpid() != self.home:
            self.how()
        return self.body(x)


def fail():
    raise ValueError("not in a worker")


@pytest.mark.parametrize("how", [lambda: os._exit(1), fail], ids=["dies", "raises"])
def test_what_a_worker_cannot_do_is_done_here(how, two_workers, monkeypatch):
    monkeypatch.setattr(auto, "ways_for", lambda job, **_: ["apart"])
    builds = [lambda seed: Fragile(seed, how), cnn, cnn]
    alone, mine = jobs(*builds), jobs(*builds)
    Serial(CPU).answer(alone)
    Auto(CPU).answer(mine)
    same(alone, mine)


class Endless(nn.Module):
    """Says which process it is in, and then does not come back for a minute."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, x):
        os.write(1, f"{os.getpid()}\n".encode())
        time.sleep(60)


def train_endlessly():
    torch.set_num_threads(2)
    answer_apart([Apart(job) for job in jobs(*[lambda seed: Endless()] * 2)])


def test_workers_do_not_outlive_a_run_that_is_killed():
    """They would keep the cores busy until their trainings are over, for nobody."""
    command = [
        sys.executable,
        "-c",
        "from tests.engines.auto.test_strategies import train_endlessly; train_endlessly()",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        workers = [int(run.stdout.readline()) for _ in range(2)]
        run.kill()
        # The pipe ends when nobody can write to it any more: neither the run nor its workers.
        ended, _, _ = select.select([run.stdout], [], [], 20)
        assert ended
        assert run.stdout.read() == ""
    assert run.pid not in workers


def test_a_job_that_fails_everywhere_raises_with_its_owner(two_workers):
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, x):
            raise ValueError("broken")

    [found] = answer_apart([Apart(jobs(lambda seed: Broken())[0])])
    assert found is None


def test_the_ways_on_offer(two_workers):
    convolutional, dense = jobs(cnn, mlp)
    assert ways_for(convolutional, stackable=True, in_company=True) == [
        "alone",
        "stacked",
        "apart",
        "apart, channels last",
    ]
    assert ways_for(dense, stackable=True, in_company=True) == ["stacked", "alone", "apart"]
    assert ways_for(dense, stackable=False, in_company=False) == ["alone"]


def test_with_one_thread_there_are_no_workers():
    assert apart.workers() == 1
    assert "apart" not in ways_for(jobs(mlp)[0], stackable=True, in_company=True)


def test_kinds_are_named_by_what_makes_them_fast_or_slow():
    one, other, dense = jobs(cnn, cnn, mlp)
    assert kind_of(one) == kind_of(other) != kind_of(dense)
    assert kind_of(one).startswith("Sequential ")


class TestChoices:
    OPEN = ("alone", "stacked", "apart")

    def test_quick_work_is_not_worth_trying_others(self):
        choices = Choices()
        for _ in range(2):
            assert choices.way("k", list(self.OPEN), samples=100) == ("alone", True)
            choices.note("k", "alone", seconds=0.001, samples=100)
        assert choices.way("k", list(self.OPEN), samples=100) == ("alone", False)
        assert choices.chosen() == {}

    def test_each_way_is_tried_then_the_fastest_taken(self):
        choices, seconds = Choices(), {"alone": 1.0, "stacked": 3.0, "apart": 0.5}
        tried = []
        for _ in range(6):
            way, trial = choices.way("k", list(self.OPEN), samples=100)
            assert trial
            tried.append(way)
            choices.note("k", way, seconds[way], samples=10)
        assert tried == ["alone", "alone", "stacked", "stacked", "apart", "apart"]
        assert choices.way("k", list(self.OPEN), samples=100) == ("apart", False)
        assert choices.chosen() == {"k": "apart"}
        assert choices.way("k", ["alone"], samples=100) == ("alone", False), "only what is open now"

    def test_the_first_helping_may_be_slow(self):
        choices = Choices()
        for way, seconds in [("alone", 1), ("alone", 1), ("stacked", 9), ("stacked", 0.5)]:
            choices.note("k", way, seconds, samples=1)
        assert choices.way("k", ["alone", "stacked"], samples=100) == ("stacked", False)


def test_trials_are_kept_with_the_engine(two_workers, monkeypatch):
    monkeypatch.setattr(ways, "WORTH_TRYING", 0.0)
    engine, builds = Auto(CPU), [cnn] * 12
    alone, mine = jobs(*builds), jobs(*builds)
    Serial(CPU).answer(alone)
    engine.answer(mine)
    same(alone, mine)
    engine.answer(jobs(*builds))
    kind = kind_of(mine[0])
    assert set(engine.decisions()["strategies"]) == {kind}
    again = Auto(CPU)
    again.restore(engine.snapshot())
    assert again.decisions() == engine.decisions()
    again.restore({"timings": {kind: {"by magic": [0.0], "alone": [1.0]}}})
    assert again.choices.timings == {kind: {"alone": [1.0]}}
