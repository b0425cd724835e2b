"""FedDistill by numbers worked out by hand, a round against plain PyTorch, and what must not change a thing."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck import Payload
from potluck.federation.server import Server
from potluck.methods import FedDistill, Local
from potluck.methods.distillation import as_probabilities
from potluck.methods.feddistill import distilled_loss
from tests.tables import made_data, mlp, participants, weights_agree

L3 = math.log(3)


def replied(method, **means):
    """What the server answers to class means; None stands for a class that somebody lacks."""
    told = []
    for name, rows in means.items():
        table = torch.tensor([row or (0.0, 0.0) for row in rows])
        counts = torch.tensor([int(row is not None) for row in rows])
        told.append((name, Payload({"means": table, "counts": counts})))
    return method.answers(Server(seed=0, participant_weights={}), iter(told))


@pytest.mark.parametrize(("own", "target", "pull"), [("exclude", 0.75, 0.25), ("include", 0.9, 0.4)])
def test_the_target_and_its_gradient_worked_by_hand(own, target, pull):
    """A's mean is (3 ln 3, 0), B's (ln 3, 0): B's alone gives (.75, .25), both give (2 ln 3, 0) and (.9, .1)."""
    replies = replied(FedDistill(own=own), A=[(3 * L3, 0.0), None], B=[(L3, 0.0), None])
    soft = as_probabilities(replies["A"]["means"][:1])
    torch.testing.assert_close(soft, torch.tensor([[target, 1 - target]]))
    logits = torch.zeros(1, 2, requires_grad=True)
    batch = {"x": logits, "y": torch.tensor([0]), "soft": soft}
    with_term = distilled_loss(lambda x: x, batch, {"gamma": 1.0})
    without = distilled_loss(lambda x: x, batch, {"gamma": 0.0})
    (gradient,) = torch.autograd.grad(with_term - without, logits)
    torch.testing.assert_close(gradient, torch.tensor([[-pull, pull]]))


def test_a_class_that_no_other_has_adds_nothing():
    replies = replied(FedDistill(), A=[(1.0, 0.0), (0.0, 1.0)], B=[(1.0, 0.0), None])
    assert replies["A"]["counts"].tolist() == [1, 0]
    assert replies["B"]["counts"].tolist() == [1, 1]
    assert replied(FedDistill(), A=[(1.0, 0.0), None])["A"]["counts"].tolist() == [0, 0], "nobody else is there"


@pytest.mark.parametrize(("own", "means"), [("exclude", "training"), ("include", "training"), ("exclude", "trained")])
def test_two_rounds_equal_plain_pytorch(own, means):
    """Two steps a round: means are of what is met at both of them, or of the trained model."""
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=2, batch_size=1000)
    models = [mlp(0), mlp(1, 5), mlp(2)]
    people = participants(models, plan=plan)
    people[2] = potluck.Participant("p2", mlp(2), made_data(17, 2, (0, 1)), plan=plan, labels=range(3))
    potluck.Federation(people, FedDistill(gamma=0.7, own=own, means=means), seed=4, engine="serial").run(2)

    nets, told = [mlp(0), mlp(1, 5), mlp(2)], None
    for _ in range(2):
        found = []
        for i, (net, person) in enumerate(zip(nets, people, strict=True)):
            x, y = person.data.x, person.data.y
            met = []
            for _ in range(2):
                logits = net(x)
                met.append(logits.detach())
                loss = F.cross_entropy(logits, y)
                for label in y.unique().tolist() if told else []:
                    heard = [o[label] for j, o in enumerate(told) if label in o and (own == "include" or j != i)]
                    target = torch.stack(heard).mean(0).softmax(0)
                    loss = loss - 0.7 * (logits[y == label].log_softmax(1) * target).sum() / len(y)
                gradients = torch.autograd.grad(loss, list(net.parameters()))
                for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                    parameter.data -= 0.1 * gradient
            with torch.no_grad():
                said = (met[0] + met[1]) / 2 if means == "training" else net(x)
            found.append({int(label): said[y == label].mean(0) for label in y.unique()})
        told = found
    for person, net in zip(people, nets, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-6, atol=1e-7)


def test_without_the_term_it_is_local():
    runs = [participants([mlp(0), mlp(1)]) for _ in range(2)]
    for people, method in zip(runs, [FedDistill(gamma=0), Local()], strict=True):
        potluck.Federation(people, method, seed=4, engine="serial").run(2)
    weights_agree(*runs, 1e-12)


def test_a_row_for_each_class_travels():
    rows = potluck.Federation(participants([mlp(0), mlp(1)]), FedDistill()).run(2).rows()
    size = Payload({"means": torch.zeros(3, 3), "counts": torch.zeros(3, dtype=torch.int64)}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2} == {(size, size)}
