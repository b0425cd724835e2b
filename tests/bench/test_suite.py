"""What ``potluck bench`` runs: rounds, the engine's own cost, the server; chosen by name."""

from __future__ import annotations

import pytest
import torch

from potluck.bench import suite
from potluck.bench.scenarios import IDLE, MLP, RESNET34, SMALL_MLP
from potluck.bench.suite import BENCHMARKS, GPU_BENCHMARKS, merging, overhead, rounds, selected, transforms
from potluck.bench.transforms import WAYS
from potluck.core.errors import SettingsError

RESNET = RESNET34.replace(models=("resnet10",), count=2)


def test_rounds_are_compared():
    figures = {figure.name: figure for figure in rounds(MLP.replace(count=2, samples=32), repeats=2, goal=1.5)}
    assert list(figures) == ["MLP round, serial", "MLP round, auto", "MLP round, auto over serial"]
    assert figures["MLP round, auto over serial"].goal == 1.5
    assert all(figure.value > 0 and figure.repeats == 2 for figure in figures.values())


def test_the_engines_own_cost_is_measured_for_each_participant():
    figures = overhead(2, IDLE.replace(count=3))
    assert [figure.name.removeprefix("nothing, ") for figure in figures] == [
        f"{engine}, {steps}" for engine in ("serial", "auto") for steps in ("no step", "one step")
    ]
    assert all(0 < figure.value < 1000 and figure.goal == 1.0 for figure in figures)


def test_merging_is_compared_with_copying(monkeypatch):
    monkeypatch.setattr(suite, "RESNET34", RESNET)
    monkeypatch.setattr(suite, "RESNETS", RESNET)
    figures = {figure.name: figure for figure in merging(1, senders=2, checking=True, copied=2**20)}
    copied = figures["memory copied"].value
    for name in ("PerHeFed merged", "FedIN merged", "PerHeFed checked, merged", "FedIN checked, merged"):
        assert figures[f"{name} over copied"].value == pytest.approx(figures[name].value / copied)
    assert figures["FedIN merged over copied"].goal == pytest.approx(1 / 3)


def test_transforms_are_compared_with_none():
    figures = transforms(1, SMALL_MLP.replace(count=2, samples=8))
    assert [figure.name for figure in figures] == [f"small MLP round, {name} over plain" for name in WAYS]
    assert all(figure.value > 0 and figure.goal == 1.1 for figure in figures)


def test_benchmarks_are_chosen_by_name(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert list(selected([])) == list(BENCHMARKS)
    assert list(selected(["overhead", "mlp"])) == ["mlp", "overhead"]
    with pytest.raises(SettingsError, match="no benchmark 'mpl'"):
        selected(["mpl"])
    with pytest.raises(SettingsError, match="'fedin' needs a GPU"):
        selected(["fedin"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert list(selected([])) == [*BENCHMARKS, *GPU_BENCHMARKS]
