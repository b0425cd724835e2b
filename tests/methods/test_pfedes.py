from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck.methods import METHODS, PFedES
from tests.methods.plain import PLAN, begun, data_of, mean, same
from tests.tables import cnn, made_data, mlp, participants


class Line(nn.Module):
    """f(x) = (w·x, 0)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(math.log(3), dtype=torch.float64))

    def forward(self, x):
        return torch.stack([self.w * x[:, 0], 0 * x[:, 0]], dim=1)


class Stretch(nn.Module):
    """g(x) = relu(e·x)."""

    def __init__(self):
        super().__init__()
        self.e = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x):
        return (self.e * x).relu()


def test_a_round_by_hand():
    """x = 1 of class 0, w = ln 3, e = 2, μ = ¼, a rate of 1: first w moves, then e."""
    x = torch.ones(2, 1, dtype=torch.float64)
    plan = PLAN.replace(lr=1.0, epochs=1)
    me = potluck.Participant("me", Line(), (x, [0, 0]), plan=plan, labels=[0, 1])
    with torch.no_grad():
        f, g = F.cross_entropy(Line()(x), torch.zeros(2).long()), F.cross_entropy(Line()(2 * x), torch.zeros(2).long())
    assert (0.75 * f + 0.25 * g).item() == pytest.approx(0.242102, abs=1e-6)
    potluck.Federation([me], PFedES(mu=0.25, extractor=Stretch), engine="serial").run(1)
    assert me.weights()["w"].item() == pytest.approx(1.336112, abs=1e-6)
    assert me.models["extractor"].weights()["e"].item() == pytest.approx(2.086356, abs=1e-6)


def test_two_rounds_in_plain_pytorch():
    """Networks of any architecture; the extractors' mean counts samples, and each trains by a plan of its own."""
    plan = potluck.Plan(optimizer="sgd", lr=0.02, epochs=3, batch_size=1000)
    federation, models = begun(METHODS["pFedES"](mu=0.3, extractor_plan=plan), [mlp(0), mlp(1, 5), mlp(2)])
    people = list(federation.participants.values())
    start = copy.deepcopy(people[0].models["extractor"].model)
    extractors = [start] * 3

    def step(net, p, loss, lr):
        for entry, gradient in zip(p, torch.autograd.grad(loss, p), strict=True):
            entry.data -= lr * gradient

    for _ in range(2):
        extractors = [copy.deepcopy(extractors[0]) for _ in people]
        for f, g, person in zip(models, extractors, people, strict=True):
            x, y = data_of(person)
            for _ in range(2):
                loss = 0.7 * F.cross_entropy(f(x), y) + 0.3 * F.cross_entropy(f(g(x)), y)
                step(f, list(f.parameters()), loss, 0.05)
            for _ in range(3):
                step(g, list(g.parameters()), F.cross_entropy(f(g(x)), y), 0.02)
        average = mean([g.state_dict() for g in extractors], [len(p.data) for p in people])
        for g in extractors:
            g.load_state_dict(average)
    federation.run(2)
    for person, f in zip(people, models, strict=True):
        same(person.weights(), f.state_dict())
        same(person.models["extractor"].weights(), average)


@pytest.mark.parametrize("freeze", [True, False])
def test_statistics_may_move_while_the_extractor_learns(freeze):
    """In the first part f sees two batches at each of its two steps, in the second part one."""
    federation, _ = begun(PFedES(freeze_statistics=freeze), [cnn(0), cnn(1)])
    federation.run(1)
    found = federation.participants["p0"].weights()["1.num_batches_tracked"].item()
    assert found == (4 if freeze else 6)


def test_label_spaces_may_differ():
    two = potluck.Participant("two", mlp(1, classes=2), made_data(12, 1, [0, 1]), plan=PLAN)
    federation = potluck.Federation([*participants([mlp(0)], plan=PLAN), two], PFedES())
    federation.run(1)
    one, other = (person.models["extractor"].weights() for person in federation.participants.values())
    same(one, other, 0)
