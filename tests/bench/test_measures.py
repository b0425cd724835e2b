"""What is measured beside rounds: steps against an eager loop, the engine's own cost, the server, memory, parts."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from benchmarks import memory
from potluck.bench import merging as merges
from potluck.bench.eager import eager_epochs
from potluck.bench.merging import crowd, merging
from potluck.bench.overhead import overhead
from potluck.bench.scenarios import CNN, COFED, NOTHING
from potluck.bench.steps import eager_and_engine
from potluck.bench.suite import GPU_PARTS, PARTS, chosen
from potluck.core.errors import SettingsError
from potluck.methods import FedIN, PerHeFed

TINY = COFED.replace(models=COFED.models[:2], count=4, samples=10, plan=COFED.plan.replace(batch_size=5))
RESNET = merges.RESNET34.replace(models=("resnet10",), count=2)


def test_an_eager_loop_for_each_architecture(monkeypatch):
    steps = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: (steps.append(1), step(self)))
    epochs = eager_epochs(TINY, torch.device("cpu"))
    for epoch in epochs.values():
        epoch()
    assert list(epochs) == ["cofed1", "cofed2"]
    assert len(steps) == 2 * TINY.steps == 4


def test_steps_are_told_for_each_participant_and_step():
    figures = {figure.name: figure for figure in eager_and_engine(TINY, "cpu", repeats=3, engine="serial", goal=8)}
    assert list(figures) == [
        f"CoFED 4: {what}" for what in ("eager", "Fit", "first Fit", "steps", "Fit over eager", "steps over eager")
    ]
    assert figures["CoFED 4: steps over eager"].goal == 8
    # One plain loop against another: far from equal on a busy machine, but of one size.
    assert 0.05 < figures["CoFED 4: Fit over eager"].value < 20


def test_the_engines_own_cost_is_told_for_each_participant():
    figures = overhead(2, NOTHING.replace(count=3))
    assert [figure.name.removeprefix("nothing, ") for figure in figures] == [
        f"{engine}, {steps}" for engine in ("serial", "auto") for steps in ("no step", "one step")
    ]
    assert all(0 < figure.value < 1000 and figure.goal == 1.0 for figure in figures)


@pytest.mark.parametrize(("method", "exchange"), [(PerHeFed(), "share"), (FedIN(), "update")])
def test_a_few_stand_for_a_crowd(method, exchange):
    many = crowd(RESNET, method, senders=5)
    assert many.exchange == exchange
    assert many.bytes == sum(payload.size for payload in many.senders.values()) > 10_000_000
    replies = many.check_and_merge()
    assert list(replies) == list(many.senders) == list(many.merge())
    assert len({id(payload) for payload in many.senders.values()}) == RESNET.count


def test_a_crowd_of_one_answer_merges_to_that_answer():
    many = crowd(RESNET.replace(count=1), PerHeFed(), senders=3)
    sent = next(iter(many.senders.values()))
    for reply in many.merge().values():
        for name, entry in reply.tensors.items():
            torch.testing.assert_close(entry, sent[name])


def test_merging_is_compared_with_copying(monkeypatch):
    monkeypatch.setattr(merges, "RESNET34", RESNET)
    monkeypatch.setattr(merges, "RESNETS", RESNET)
    figures = {figure.name: figure for figure in merging(1, senders=2, checking=True, copied=2**20)}
    copied = figures["memory copied"].value
    for name in ("PerHeFed merged", "FedIN merged", "PerHeFed checked, merged", "FedIN checked, merged"):
        assert figures[f"{name} over copied"].value == pytest.approx(figures[name].value / copied)
    assert figures["FedIN merged over copied"].goal == pytest.approx(1 / 3)


def test_memory_counts_what_was_held_here_and_in_children():
    """In a fresh process, since a peak never falls."""
    code = f"""
import runpy, subprocess, sys
peak = runpy.run_path({memory.__file__!r})["peak_memory"]
before = peak()
held = bytearray(2**26)
mine = peak()
del held
child = subprocess.Popen([sys.executable, "-c", "held = bytearray(2**26); print(1, flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
both = peak()
child.communicate(b"1")
print(mine - before, both - mine)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here, child = (int(grown) / 2**26 for grown in told.split())
    assert here == pytest.approx(1, abs=0.1)
    assert child == pytest.approx(1, abs=0.5)  # and an interpreter


def test_parts_are_chosen_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert list(chosen([])) == list(PARTS)
    assert list(chosen(["overhead", "mlp"])) == ["mlp", "overhead"]
    with pytest.raises(SettingsError, match="no benchmark 'mpl'"):
        chosen(["mpl"])
    with pytest.raises(SettingsError, match="'fedin' needs a GPU"):
        chosen(["fedin"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert list(chosen([])) == [*PARTS, *GPU_PARTS]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_compared_with_its_memory():
    names = [figure.name for figure in eager_and_engine(CNN.replace(count=2, samples=50), "cuda", repeats=2)]
    assert names[-1] == "CNN 2: steps over floor"
