"""Training steps beside those of a plain PyTorch loop."""

from __future__ import annotations

import pytest
import torch

from potluck.bench.scenarios import CNN, COFED
from potluck.bench.steps import eager_against_engine, eager_epochs

TINY = COFED.replace(models=COFED.models[:2], count=4, samples=10, plan=COFED.plan.replace(batch_size=5))


def test_an_eager_loop_for_each_architecture(monkeypatch):
    steps = []
    step = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: (steps.append(1), step(self)))
    epochs = eager_epochs(TINY, torch.device("cpu"))
    for epoch in epochs.values():
        epoch()
    assert list(epochs) == ["cofed1", "cofed2"]
    assert len(steps) == 2 * TINY.steps == 4


def test_steps_are_measured_for_each_participant_and_step():
    figures = {figure.name: figure for figure in eager_against_engine(TINY, "cpu", repeats=3, engine="serial", goal=8)}
    assert list(figures) == [
        f"CoFED 4: {what}" for what in ("eager", "Fit", "first Fit", "steps", "Fit over eager", "steps over eager")
    ]
    assert figures["CoFED 4: steps over eager"].goal == 8
    # One plain loop against another: far from equal on a busy machine, but of one size.
    assert 0.05 < figures["CoFED 4: Fit over eager"].value < 20


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_compared_with_its_memory():
    names = [figure.name for figure in eager_against_engine(CNN.replace(count=2, samples=50), "cuda", repeats=2)]
    assert names[-1] == "CNN 2: steps over floor"
