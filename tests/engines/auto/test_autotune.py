"""The engine that chooses by the clock: it tries, takes the fastest strategy, and keeps its choice."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from potluck.engines import Autotune, Serial, make_engine
from potluck.engines.auto import autotune
from potluck.engines.auto.autotune import Trials
from potluck.engines.auto.strategies import Kind, possible
from tests.engines.auto.helpers import jobs_of, same
from tests.tables import cnn, mlp

CPU = torch.device("cpu")
OPEN = ("alone", "stacked", "workers")


def test_quick_work_is_not_worth_trying_others():
    trials = Trials()
    for _ in range(2):
        assert trials.strategy("k", OPEN, samples=100) == ("alone", True)
        trials.note("k", "alone", seconds=0.001, samples=100)
    assert trials.strategy("k", OPEN, samples=100) == ("alone", False)
    assert trials.fastest() == {}


def test_each_strategy_is_tried_then_the_fastest_taken():
    trials, seconds = Trials(), {"alone": 1.0, "stacked": 3.0, "workers": 0.5}
    tried = []
    for _ in range(6):
        strategy, trial = trials.strategy("k", OPEN, samples=100)
        assert trial
        tried.append(strategy)
        trials.note("k", strategy, seconds[strategy], samples=10)
    assert tried == ["alone", "alone", "stacked", "stacked", "workers", "workers"]
    assert trials.strategy("k", OPEN, samples=100) == ("workers", False)
    assert trials.fastest() == {"k": "workers"}
    assert trials.strategy("k", ["alone"], samples=100) == ("alone", False), "only what is open now"


def test_the_first_trial_may_be_slow():
    trials = Trials()
    for strategy, seconds in [("alone", 1), ("alone", 1), ("stacked", 9), ("stacked", 0.5)]:
        trials.note("k", strategy, seconds, samples=1)
    assert trials.strategy("k", ["alone", "stacked"], samples=100) == ("stacked", False)


def test_what_failed_is_not_tried_again():
    trials = Trials()
    trials.note("k", "alone", 9, samples=1)
    trials.note("k", "alone", 9, samples=1)
    trials.note("k", "workers", 1, samples=1)
    trials.rule_out("k", "workers")
    assert trials.strategy("k", ["alone", "workers"], samples=100) == ("alone", False)
    again = Trials()
    again.restore(trials.snapshot())
    assert again.strategy("k", ["alone", "workers"], samples=100) == ("alone", False)


@pytest.fixture
def always_trying(monkeypatch):
    monkeypatch.setattr(autotune, "WORTH_TRYING", 0.0)


def test_trials_give_the_serial_result_and_are_kept(two_cores, always_trying):
    engine, builds = make_engine("autotune", "cpu"), [cnn] * 12 + [mlp] * 3
    alone, mine = jobs_of(*builds), jobs_of(*builds)
    Serial(CPU).answer(alone)
    engine.answer(mine)
    same(alone, mine)
    for _ in range(6):
        engine.answer(jobs_of(*builds))
    kinds = [Kind.of(mine[0]), Kind.of(mine[-1])]
    assert set(engine.decisions()["strategies"]) == {kind.name for kind in kinds}
    again = Autotune(CPU)
    again.restore(engine.snapshot())
    assert again.decisions() == engine.decisions()
    assert again.incidents == []
    waves = again._by_kind(mine)
    for kind, at in waves.items():
        wave = again._wave(kind, [mine[index] for index in at])
        [fastest] = again.decisions()["strategies"][kind.name]
        assert again.trials.strategy(kind.name, possible(wave, True, 2), 10**9) == (fastest, False)


def test_strategies_of_another_version_are_forgotten():
    trials = Trials()
    trials.restore({"timings": {"k": {"by magic": [0.0], "alone": [1.0]}}, "failed": {"k": ["by magic"]}})
    assert trials.snapshot() == {"timings": {"k": {"alone": [1.0]}}, "failed": {"k": []}}


class Homebound(nn.Module):
    """Fails in every process but the one it was made in."""

    def __init__(self, seed):
        super().__init__()
        self.body, self.home = cnn(seed), os.getpid()

    def forward(self, x):
        if os.getpid() != self.home:
            raise ValueError("not in a worker")
        return self.body(x)


def test_workers_that_fail_are_said_and_ruled_out(two_cores, always_trying, monkeypatch):
    monkeypatch.setattr(autotune, "possible", lambda *_, **__: ["workers", "alone"])
    alone, mine = jobs_of(Homebound, Homebound), jobs_of(Homebound, Homebound)
    Serial(CPU).answer(alone)
    engine = Autotune(CPU)
    engine.answer(mine)
    same(alone, mine)
    [told] = engine.incidents
    assert "could not train Homebound" in told
    assert "ValueError: not in a worker" in told
    assert engine.trials.failed == {Kind.of(mine[0]).name: ["workers"]}
    assert engine.trials.strategy(Kind.of(mine[0]).name, ["workers", "alone"], 10**9)[0] == "alone"
