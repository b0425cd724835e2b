"""Linear layers whose gradients stay in factors give the serial engine's result, and only where that is right."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from potluck.core.objectives import cross_entropy
from potluck.engines import Batched, Serial
from potluck.engines.batched import trainer as training
from potluck.engines.batched.kernels.factored_linear import Call
from tests.jobs import trainings
from tests.tables import cnn, mlp

CPU = torch.device("cpu")
SIZES = (40, 57, 33)


@pytest.fixture
def factored(monkeypatch):
    """The calls of every step."""
    kept, found = training.Training._all_gradients, []

    def all_gradients(self, *step):
        calls, gradients = kept(self, *step)
        found.append(calls)
        return calls, gradients

    monkeypatch.setattr(training.Training, "_all_gradients", all_gradients)
    return found


def agree(**settings):
    alone, together = (trainings(**{"optimizer": "sgd", "sizes": SIZES, **settings}) for _ in range(2))
    Serial(CPU).answer(alone)
    Batched(CPU).answer(together)
    for one, other in zip(alone, together, strict=True):
        torch.testing.assert_close(one.learner.weights(), other.learner.weights(), rtol=1e-10, atol=1e-10)


class Twice(nn.Module):
    """One linear layer that is run twice, and one whose weights are also looked at by themselves."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.again, self.tied = nn.Linear(36, 36).double(), nn.Linear(36, 36).double()
        self.out = nn.Linear(36, 3).double()

    def forward(self, x):
        x = self.again(self.again(x.flatten(1)).tanh())
        return self.out(self.tied(x).tanh() @ self.tied.weight)


class Tokens(nn.Module):
    """Linear layers over rows of a sample, over a sample, and over the batch turned round."""

    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.rows, self.out = nn.Linear(6, 5).double(), nn.Linear(30, 3, bias=False).double()
        self.across = nn.Linear(30, 30).double()

    def forward(self, x):
        x = self.rows(x.squeeze(1)).relu().flatten(1)
        return self.out(x + self.across(x.unsqueeze(0)).squeeze(0))


@pytest.mark.parametrize(
    ("build", "calls"),
    [
        (mlp, [("1.weight", (8,)), ("3.weight", (3,))]),
        (cnn, [("4.weight", (3,))]),
        (Twice, [("again.weight", (36,)), ("again.weight", (36,)), ("out.weight", (3,))]),
        (Tokens, [("rows.weight", (6, 5)), ("out.weight", (3,))]),
    ],
)
def test_plain_sgd_leaves_gradients_in_factors_after_the_first_step(build, calls, factored):
    agree(build=build)
    first, *others = factored
    assert first == ()
    assert set(others) == {tuple(Call(*call) for call in calls)}


def drawn_back(net, batch, given):
    """Looks at one layer's weights beside the layer itself."""
    return cross_entropy(net, batch, given) + 0.1 * (net.parameters["1.weight"] ** 2).sum()


def test_weights_that_an_objective_looks_at_keep_their_gradients(factored):
    agree(build=mlp, objective=drawn_back)
    assert set(factored[1:]) == {(Call("3.weight", (3,)),)}


@pytest.mark.parametrize(
    "plan", [{"momentum": 0.9}, {"weight_decay": 0.1}, {"max_grad_norm": 0.1}, {"optimizer": "adam"}], ids=str
)
def test_other_optimizers_see_whole_gradients(plan, factored):
    agree(build=mlp, **plan)
    assert set(factored) == {()}


def test_rates_may_differ_and_fall(factored):
    agree(build=mlp, schedule="cosine")
    assert any(factored)


def first(net, x):
    """The first linear layer by itself."""
    return F.linear(x.flatten(1), net.parameters["1.weight"]).square().mean()


@pytest.mark.parametrize(
    "more",
    [
        lambda net, batch: (net.parameters["1.weight"] ** 2).sum(),
        lambda net, batch: first(net, batch["x"]),
        lambda net, batch: first(net, batch["x"][:2]),
    ],
    ids=["elsewhere", "another call", "of another shape"],
)
def test_a_loss_that_looks_at_more_in_odd_batches_gets_whole_gradients_from_there_on(more, factored, caplog):
    def loss(net, batch, given):
        whole = cross_entropy(net, batch, given)
        return whole if len(batch["y"]) == 8 else whole + 0.1 * more(net, batch)

    agree(build=mlp, objective=loss, sizes=(44, 44))
    assert [bool(calls) for calls in factored] == [False, *[True] * 4, *[False] * 31]
    assert "cannot be stacked" not in caplog.text
