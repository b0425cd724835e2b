"""On a GPU, a step that is captured and replayed gives the serial engine's result."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from potluck.core.objectives import cross_entropy
from potluck.engines import Batched, Serial
from potluck.engines.batched import cuda_graphs as graphs
from potluck.engines.batched.stacked_jobs import UNCAPTURED
from tests.jobs import trainings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def counted(monkeypatch):
    """One entry for each replay from now on."""
    replays = []
    call = graphs.Replayed.__call__
    monkeypatch.setattr(graphs.Replayed, "__call__", lambda self, inputs: (replays.append(1), call(self, inputs))[1])
    return replays


def agree(**settings):
    alone, together = trainings(**settings), trainings(**settings)
    Serial(GPU).answer(alone)
    Batched(GPU).answer(together)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "plan", [{"optimizer": "sgd", "momentum": 0.9}, {"optimizer": "adam"}, {"max_grad_norm": 0.1}], ids=str
)
@pytest.mark.parametrize("sizes", [(40, 40, 40), (44, 44, 44), (40, 57, 33)], ids=str)
def test_replayed_steps_agree(plan, sizes, monkeypatch):
    made = []
    kept = graphs.Replayed.__init__
    monkeypatch.setattr(
        graphs.Replayed, "__init__", lambda self, *given, **more: (made.append(1), kept(self, *given, **more))[1]
    )
    agree(sizes=sizes, **plan)
    assert made


def test_networks_that_are_on_the_device_already_are_stacked_with_the_others(caplog):
    made = trainings()
    made[1].learner.model.to(GPU)
    Batched(GPU).answer(made)
    assert "cannot be stacked" not in caplog.text


def unruly(net, batch, given):
    """Looks at a number on the way, which a graph cannot."""
    loss = cross_entropy(net, batch, given)
    return loss * torch.tensor(1.0, device="cpu").to(loss.device)


def test_a_few_that_cannot_be_captured_run_alone_and_it_is_said(caplog):
    agree(objective=unruly)
    assert "cannot be captured in a CUDA graph, and run one by one, since they are few" in caplog.text


def test_many_that_cannot_be_captured_run_step_by_step_and_it_is_said(caplog):
    agree(objective=unruly, sizes=(40,) * UNCAPTURED)
    assert "cannot be captured in a CUDA graph, and run together, step by step" in caplog.text


def unruly_if_full(net, batch, given):
    return (unruly if len(batch["y"]) == 8 else cross_entropy)(net, batch, given)


def test_a_capture_that_fails_leaves_the_others_alone(monkeypatch):
    replays = counted(monkeypatch)
    agree(objective=unruly_if_full, sizes=(44, 44, 44), epochs=9)
    assert len(replays) == 9


def test_dropout_draws_anew_at_each_replay():
    def build(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3)).double()

    made = trainings(build=build, sizes=(80, 80))
    fitted = Batched(GPU).answer(made)
    assert len({losses[0] for losses in fitted[0].losses}) == 6


def dropping(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(36, 3)).double()


def test_what_dropout_draws_depends_neither_on_a_capture_nor_on_others():
    """As where a run goes on in a new process, which has captured nothing yet, or with more participants at a time."""
    seasoned, anew = Batched(GPU), Batched(GPU)
    seasoned.answer(trainings(build=dropping, sizes=(80, 80)))
    mine, others, same = (trainings(build=build, sizes=(80, 80)) for build in (dropping, dropping, dropping))
    for job in others:
        job.learner.model.append(nn.Identity())
    seasoned.answer([*others, *mine])
    anew.answer(same)
    for one, other in zip(mine, same, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-10, atol=1e-10)


def test_samples_changed_in_place_are_seen():
    engine, alone, together = Batched(GPU), trainings(sizes=(40, 40)), trainings(sizes=(40, 40))
    for _ in range(2):
        Serial(GPU).answer(alone)
        engine.answer(together)
        for one, other in zip(alone, together, strict=True):
            torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-8, atol=1e-8)
            one.samples.x.neg_()
            other.samples.x.neg_()
