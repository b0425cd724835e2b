"""ScaleFL by the numbers worked by hand, then whole, against a plain re-computation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import tensor

import potluck
from potluck.methods import HeteroFL, ScaleFL
from potluck.methods.scalefl import exit_loss, over_exits
from potluck.models import build
from tests.tables import SHAPE, agree, exit_mlp, made_data, participants, weights_agree

PLAIN = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
TEST = made_data(60, 91)


class Answers:
    """What a network with two exits puts out."""

    def __init__(self, *logits):
        self.logits = dict(zip(("a", "b"), logits, strict=True))

    def taps(self, x, at):
        return self.logits["b"], self.logits


def loss(*logits, **context):
    plain = {"exits": ["a", "b"], "gamma": 0.0, "temperature": 3.0, "variant": "paper", "owned": tensor([True, True])}
    return exit_loss(Answers(*logits), {"x": None, "y": tensor([0])}, {**plain, **context})


def test_later_exits_count_more():
    assert over_exits([tensor(1.0), tensor(0.8), tensor(0.5)]).item() == pytest.approx(0.683333, abs=1e-6)


def test_earlier_exits_learn_from_the_last():
    """At T = 2, logits (2·ln 3, 0) of the last say (¾, ¼), against (½, ½): KL 0.130812, gradient (−¼, ¼) / 2."""
    last, first = tensor([[4 * 1.0986122887, 0.0]]), torch.zeros(1, 2, requires_grad=True)
    last = last / 2  # (2·ln 3, 0)
    plain = loss(first, last)
    distilled = loss(first, last, gamma=0.5, temperature=2.0)
    assert (distilled - plain).item() == pytest.approx(0.5 * 4 * 0.130812 / 3, abs=1e-6)
    (gradient,) = torch.autograd.grad(distilled - plain, first)
    torch.testing.assert_close(gradient, 0.5 * 4 * tensor([[-0.125, 0.125]]) / 3)


def test_the_code_divides_by_the_number_of_classes_and_moves_the_last_exit():
    last, first = tensor([[2 * 1.0986122887, 0.0]], requires_grad=True), torch.zeros(1, 2)
    plain = loss(first, last)
    coded = loss(first, last, gamma=0.5, temperature=2.0, variant="code")
    assert (coded - plain).item() == pytest.approx(0.5 * 4 * 0.130812 / 2 / 3, abs=1e-6)
    assert torch.autograd.grad(coded - plain, last)[0].abs().sum() > 0.01
    fixed = loss(first, last, gamma=0.5, temperature=2.0) - loss(first, last)
    assert not fixed.requires_grad or torch.autograd.grad(fixed, last)[0].abs().max() < 1e-7


def test_a_round_is_what_the_paper_says():
    """A wide network with two exits, a narrow one with one: the narrow one's exit meets the wide one's first."""
    people = participants([exit_mlp(0, 2, 6), exit_mlp(1, 1, 3)], plan=PLAIN)
    whole = {name: entry.clone() for name, entry in people[0].weights().items()}
    (x, y), (u, v) = (tuple(map(torch.from_numpy, made_data(n, i))) for i, n in enumerate((24, 31)))
    potluck.Federation(people, ScaleFL(gamma=0.2, temperature=2.0), seed=1).run(1)

    def stepped(weights, loss):
        gradients = torch.autograd.grad(loss, list(weights.values()))
        return {n: (w - 0.1 * g).detach() for (n, w), g in zip(weights.items(), gradients, strict=True)}

    w = {name: entry.clone().requires_grad_() for name, entry in whole.items()}
    z1 = torch.tanh(x.flatten(1) @ w["step0.1.weight"].T + w["step0.1.bias"])
    z2 = torch.tanh(z1 @ w["step1.1.weight"].T + w["step1.1.bias"])
    one = z1 @ w["exits.step0.weight"].T + w["exits.step0.bias"]
    two = z2 @ w["exits.step1.weight"].T + w["exits.step1.bias"]
    p, q = (two.detach() / 2).softmax(1), (one / 2).softmax(1)
    apart = (p * (p.log() - q.log())).sum(1).mean()
    wide = stepped(w, (1 * (F.cross_entropy(one, y) + 0.2 * 4 * apart) + 2 * F.cross_entropy(two, y)) / 3)
    cut = {"step0.1.weight": 3, "step0.1.bias": 3, "exits.step0.weight": (slice(3), slice(3)), "exits.step0.bias": 3}
    cut = {name: slice(at) if isinstance(at, int) else at for name, at in cut.items()}
    w = {name: whole[name][at].clone().requires_grad_() for name, at in cut.items()}
    z1 = torch.tanh(u.flatten(1) @ w["step0.1.weight"].T + w["step0.1.bias"])
    small = stepped(w, F.cross_entropy(z1 @ w["exits.step0.weight"].T + w["exits.step0.bias"], v))
    for name, at in cut.items():
        wide[name][at] = (wide[name][at] + small[name]) / 2
    torch.testing.assert_close(people[0].weights(), wide, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        people[1].weights(), {name: wide[name][at] for name, at in cut.items()}, rtol=0, atol=1e-12
    )


def test_with_one_exit_it_is_heterofl():
    ours, theirs = (participants([exit_mlp(width, 1, width) for width in (6, 3, 6)]) for _ in range(2))
    potluck.Federation(ours, ScaleFL(), seed=1).run(2)
    potluck.Federation(theirs, HeteroFL(masked_classes=False), seed=1).run(2)
    weights_agree(ours, theirs, 1e-12)


def test_exits_learn_from_the_last_from_a_round_on():
    def rows(method):
        people = participants([exit_mlp(0, 2, 4), exit_mlp(1, 1, 2)])
        return potluck.Federation(people, method, test=TEST, seed=1).run(2).rows()

    late, never = rows(ScaleFL(gamma=1, distil_from=2)), rows(ScaleFL(gamma=0))
    agree(late[:2], never[:2], 0)
    assert late[2]["loss"] != never[2]["loss"]


def test_resnets_with_exits_fit_each_other():
    nets = [build("exit_resnet10", SHAPE, 3, exits=n, stem="small", width=4, rate=r) for n, r in ((4, 1), (2, 0.5))]
    people = participants([net.double() for net in nets])
    potluck.Federation(people, ScaleFL(), test=TEST, seed=1).run(1)
    wide, narrow = people[0].weights(), people[1].weights()
    torch.testing.assert_close(narrow["exits.layer2.fc.weight"], wide["exits.layer2.fc.weight"][:, :4])


def test_networks_without_exits_are_refused():
    with pytest.raises(potluck.RequirementsError, match="p0: Sequential has no early exits in 'exits'"):
        potluck.Federation(participants([build("mlp", SHAPE, 3).double()]), ScaleFL()).run(0)
