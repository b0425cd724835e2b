"""The automatic engine on a CPU: every strategy gives the serial result, and two equal runs are equal bit by bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import get_args

import pytest
import torch
from torch import nn

import potluck
from potluck.engines import Auto, Serial
from potluck.engines.auto import engine as auto
from potluck.engines.auto import strategies
from potluck.engines.auto.strategies import Kind, Strategy
from potluck.methods import Local
from tests.engines.auto.helpers import jobs_of, same
from tests.tables import cnn, deep_cnn, made_data, mlp, participants

CPU = torch.device("cpu")


@pytest.fixture
def always(monkeypatch):
    """Has the rule choose one strategy for everything."""

    def decide(strategy):
        monkeypatch.setattr(auto, "choose", lambda waves, cores: [strategy] * len(waves))

    return decide


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_every_strategy_gives_the_serial_result(strategy, two_cores, always):
    always(strategy)
    alone, mine = (jobs_of(cnn, cnn, cnn, mlp, mlp, keep_optimizer=True) for _ in range(2))
    expected = Serial(CPU).answer(alone)
    engine = Auto(CPU)
    answers = engine.answer(mine)
    same(alone, mine)
    assert [answer.steps for answer in answers] == [answer.steps for answer in expected]
    assert engine.decisions()["strategies"] == {Kind.of(mine[0]).name: [strategy], Kind.of(mine[3]).name: [strategy]}
    assert not engine.incidents


@pytest.mark.parametrize("strategy", get_args(Strategy))
def test_every_strategy_computes_in_the_engines_precision(strategy, two_cores, always):
    always(strategy)
    build = lambda seed: cnn(seed).float()  # noqa: E731
    expected, mine, plain = (jobs_of(build, build) for _ in range(3))
    Serial(CPU, "bfloat16").answer(expected)
    Serial(CPU).answer(plain)
    Auto(CPU, "bfloat16").answer(mine)
    same(expected, mine, 3e-2)
    apart, off = (
        sum((one.learner.weights()[name] - entry).abs().sum() for name, entry in other.learner.weights().items())
        for one, other in [(expected[0], mine[0]), (expected[0], plain[0])]
    )
    assert apart < off


def test_the_rule_decides_for_a_whole_wave(two_cores, monkeypatch):
    seen = []
    forking = auto.answer_in_workers
    monkeypatch.setattr(auto, "answer_in_workers", lambda work: (seen.append(len(work)), forking(work))[1])
    monkeypatch.setattr(strategies, "WORTH_FORKING", 0.0)
    alone, mine = jobs_of(cnn, mlp, mlp), jobs_of(cnn, mlp, mlp)
    Serial(CPU).answer(alone)
    engine = Auto(CPU)
    engine.answer(mine)
    same(alone, mine)
    assert seen == []
    assert engine.decisions()["strategies"] == {Kind.of(mine[0]).name: ["alone"], Kind.of(mine[1]).name: ["stacked"]}
    engine.answer(jobs_of(cnn, lambda seed: deep_cnn(seed, 1)))
    assert seen == [2]
    assert engine.decisions()["strategies"][Kind.of(mine[0]).name] == ["alone", "workers"]


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


@pytest.mark.parametrize(
    ("how", "reason"),
    [(lambda: os._exit(1), "its process ended early."), (fail, "ValueError: not in a worker")],
    ids=["dies", "raises"],
)
def test_what_a_worker_cannot_do_is_done_here_and_said_once(how, reason, two_cores, always, caplog):
    always("workers")
    builds = [lambda seed: Fragile(seed, how), lambda seed: Fragile(seed, how), cnn, cnn]
    alone, mine = jobs_of(*builds), jobs_of(*builds)
    Serial(CPU).answer(alone)
    engine = Auto(CPU)
    engine.answer(mine)
    same(alone, mine)
    told = f"A worker process could not train Fragile, which was then trained in the run's own process: {reason}"
    assert told in engine.incidents
    assert [record.getMessage() for record in caplog.records].count(told) == 1
    assert engine.report()["incidents"] == engine.incidents


class Counting(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.body, self.calls = cnn(seed), 0

    def forward(self, x):
        self.calls += 1
        return self.body(x)


def test_what_a_network_counts_is_not_lost_in_a_worker(two_cores, monkeypatch):
    monkeypatch.setattr(strategies, "WORTH_FORKING", 0.0)
    alone, mine = jobs_of(Counting, Counting), jobs_of(Counting, Counting)
    Serial(CPU).answer(alone)
    Auto(CPU).answer(mine)
    assert [job.learner.model.calls for job in mine] == [job.learner.model.calls for job in alone] != [0, 0]


def federation(engine="auto"):
    """Networks that are stacked, networks that go to worker processes, and one that is like no other."""
    models = [build(seed, dtype=torch.float32) for seed, build in enumerate([mlp, mlp, mlp, cnn, cnn, deep_cnn])]
    people = participants(models, sizes=range(20, 80, 10), dtype="float32")
    return potluck.Federation(people, Local(), test=made_data(40, 91, dtype="float32"), engine=engine, device="cpu")


def play(folder, rounds):
    """A run with two threads, in which forking is always worth it."""
    torch.set_num_threads(2)
    strategies.WORTH_FORKING, strategies.CHANNELS_LAST_USES = 0.0, 50
    federation().run(rounds, run_dir=folder, resume=True)


def played(*runs):
    """Each run in a process of its own; the history of the last folder, and its summary."""
    for folder, rounds in runs:
        code = f"from {__name__} import play; play({str(folder)!r}, {rounds})"
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
        )
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [{**row, "seconds": None} for row in rows], json.loads((folder / "summary.json").read_text())


def test_equal_runs_in_other_processes_are_equal_bit_by_bit_resumed_or_not(tmp_path):
    first, summary = played((tmp_path / "first", 3))
    again, _ = played((tmp_path / "again", 3))
    resumed, after = played((tmp_path / "resumed", 1), (tmp_path / "resumed", 3))
    assert first == again
    assert first == resumed
    assert summary["decisions"] == after["decisions"]
    used = [used for [used] in summary["decisions"]["strategies"].values()]
    assert sorted(used) == ["stacked", "workers", "workers, channels last"]
    assert summary["decisions"]["cores"] == 2


def test_a_resume_with_another_engine_or_other_cores_is_said(tmp_path, monkeypatch, caplog):
    federation("serial").run(1, run_dir=tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert (settings["engine"], settings["decisions"]) == ("serial", {"cores": torch.get_num_threads()})
    resumed = federation()
    resumed.run(2, run_dir=tmp_path, resume=True)
    assert "up to here it was engine serial, device cpu" in caplog.text
    [told] = resumed.engine.incidents
    assert told.startswith(f"The run goes on with engine auto, device cpu, cores {torch.get_num_threads()};")
    assert json.loads((tmp_path / "summary.json").read_text())["incidents"] == [told]
    caplog.clear()
    federation().run(3, run_dir=tmp_path, resume=True)
    assert caplog.text == ""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    federation().run(4, run_dir=tmp_path, resume=True)
    assert "The run goes on with engine auto, device cpu, cores 7;" in caplog.text
