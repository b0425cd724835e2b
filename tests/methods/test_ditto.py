from __future__ import annotations

import pytest
import torch
from torch import nn

import potluck
from potluck.methods import Ditto, FedAvg, Local
from tests.methods.plain import PLAN, begun, cross_entropy, data_of, descended, mean, same
from tests.tables import cnn, made_data, mlp, weights_agree


class Weight(nn.Module):
    """One weight."""

    def __init__(self, w):
        super().__init__()
        self.w = nn.Parameter(torch.full((1, 1), w, dtype=torch.float64))

    def forward(self, x):
        return x.flatten(1)[:, :1] @ self.w.expand(1, 2)


def parabola(model, batch, context):
    """F = ½(x − 5)²."""
    return (model.parameters["w"] - 5).square().sum() / 2


def test_two_steps_by_hand(monkeypatch):
    """w 1, v 3, λ ½, η 0.1: w goes to 1.4; v to 3.1 and 3.185, pulled to the w that was received."""
    monkeypatch.setattr("potluck.methods.proximal.task_loss", parabola)

    class Parabola(Ditto):
        def training(self, me):
            return potluck.Fit(parabola, model="global")

    data = (torch.zeros(4, 3, dtype=torch.float64), [0, 1, 0, 1])
    for epochs, w, v in ((1, 1.4, 3.1), (2, 1.76, 3.185)):
        plan = PLAN.replace(lr=0.1, epochs=epochs)
        me = potluck.Participant("me", Weight(1.0), data, plan=plan)
        federation = potluck.Federation([me], Parabola(lam=0.5), engine="serial")
        federation.run(0)
        me.load({"w": torch.tensor([[3.0]], dtype=torch.float64)})
        federation.run(1)
        assert me.models["global"].weights()["w"].item() == pytest.approx(w)
        assert me.weights()["w"].item() == pytest.approx(v)


def test_two_rounds_in_plain_pytorch():
    federation, models = begun(Ditto(lam=0.3), [mlp(i) for i in range(3)])
    people = list(federation.participants.values())
    received, personal = models[0], [models[0]] * 3
    for _ in range(2):
        start = [p.detach().clone() for p in received.parameters()]

        def pulled(model, x, y, start=start):
            gone = sum(((p - s) ** 2).sum() for p, s in zip(model.parameters(), start, strict=True))
            return cross_entropy(model, x, y) + 0.15 * gone

        personal = [descended(v, data_of(p), loss=pulled) for v, p in zip(personal, people, strict=True)]
        trained = [descended(received, data_of(p)).state_dict() for p in people]
        received.load_state_dict(mean(trained, [len(p.data) for p in people]))
    federation.run(2)
    for person, v in zip(people, personal, strict=True):
        same(person.weights(), v.state_dict())
        same(person.models["global"].weights(), received.state_dict())


def test_the_global_model_is_fedavgs_and_both_are_reported():
    test = made_data(30, 9)
    ours, _ = begun(Ditto(), [cnn(i) for i in range(3)], test=test)
    theirs, _ = begun(FedAvg(), [cnn(i) for i in range(3)], test=test)
    rows, plain = ours.run(2).rows(), theirs.run(2).rows()
    assert [r["loss"] for r in rows if r.get("model") == "global"] == pytest.approx([r["loss"] for r in plain])
    assert [r["loss"] for r in rows if "model" not in r] != pytest.approx([r["loss"] for r in plain])


def test_with_lambda_0_everyone_is_alone():
    ours, _ = begun(Ditto(lam=0), [cnn(0) for _ in range(3)], plan=PLAN.replace(batch_size=8))
    theirs, _ = begun(Local(), [cnn(0) for _ in range(3)], plan=PLAN.replace(batch_size=8))
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 1e-12)


def test_the_personal_training_may_have_its_own_length():
    federation, _ = begun(Ditto(personal_epochs=0), [cnn(0), cnn(1)])
    federation.run(1)
    people = list(federation.participants.values())
    weights_agree(people[:1], people[1:], 0)
    assert not torch.equal(people[0].weights()["0.weight"], people[0].models["global"].weights()["0.weight"])
