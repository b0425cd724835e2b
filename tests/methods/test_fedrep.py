from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

import potluck
from potluck.core.payload import Payload
from potluck.methods import FedRep
from tests.methods.plain import PLAN, begun, data_of, descended, mean
from tests.tables import cnn, mlp


class Product(nn.Module):
    """h·b, of a head and a body of one weight each."""

    def __init__(self):
        super().__init__()
        self.b, self.h = (nn.Linear(1, 1, bias=False, dtype=torch.float64) for _ in range(2))
        with torch.no_grad():
            self.b.weight.fill_(1.0)
            self.h.weight.fill_(0.0)

    def forward(self, x):
        return self.h(self.b(x.flatten(1)))


def half_square(model, batch, context):
    """½(h·b − 1)² for the input 1."""
    return (model(batch["x"]) - 1).square().mean() / 2


class HalfSquares(FedRep):
    """FedRep with that loss for everything."""

    def local_work(self, me):
        work, answer = super().local_work(me), None
        while True:
            try:
                request = work.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield replace(request, objective=half_square)


def test_a_round_by_hand():
    """b 1, h 0, rate ½, one step each: h 0.5, then b 1.125, where jointly b would stay; with another body the mean."""
    x = torch.ones(2, 1, dtype=torch.float64)
    people = [potluck.Participant(n, Product(), (x, [0, 0]), plan=PLAN.replace(lr=0.5)) for n in ("A", "B")]
    method = HalfSquares(head_epochs=1, body_epochs=1)
    federation = potluck.Federation(people, method, engine="serial")
    federation.run(1)
    assert [people[0].weights()[name].item() for name in ("h.weight", "b.weight")] == [0.5, 1.125]
    bodies = {"A": torch.tensor([[1.125]], dtype=torch.float64), "B": torch.tensor([[1.375]], dtype=torch.float64)}
    replies = method.weights(federation.server, iter([(n, Payload({"b.weight": b})) for n, b in bodies.items()]))
    assert {name: reply.item() for name, reply in replies["A"].tensors.items()} == {"b.weight": 1.25}


@pytest.mark.parametrize("freeze", [False, True])
def test_two_rounds_in_plain_pytorch(freeze):
    federation, models = begun(
        FedRep(head_epochs=3, body_epochs=2, freeze_statistics=freeze), [mlp(i) for i in range(3)]
    )
    people = list(federation.participants.values())
    states = [model.state_dict() for model in models]
    for _ in range(2):
        trained = []
        for model, state, person in zip(models, states, people, strict=True):
            model.load_state_dict(state)
            head = descended(model, data_of(person), steps=3, only=["3.weight", "3.bias"])
            trained.append(descended(head, data_of(person), steps=2, only=["1.weight", "1.bias"]).state_dict())
        average = mean(trained, [1, 1, 1])
        states = [{name: own[name] if name.startswith("3.") else average[name] for name in own} for own in trained]
    federation.run(2)
    for person, state in zip(people, states, strict=True):
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, state[name])


def test_statistics_stay_while_the_head_is_trained_if_asked_for():
    def seen(freeze):
        federation, _ = begun(FedRep(head_epochs=2, body_epochs=0, freeze_statistics=freeze), [cnn(0), cnn(1)])
        federation.run(1)
        return federation.participants["p0"].weights()["1.num_batches_tracked"].item()

    assert seen(False) == 2
    assert seen(True) == 0


def test_with_no_step_of_the_head_it_is_a_round_of_the_body_alone():
    """Nothing of a head changes; whoever trains the body alone from the same start has the same mean."""
    ours, _ = begun(FedRep(head_epochs=0, body_epochs=2), [mlp(i) for i in range(3)])
    ours.run(2)
    for seed, person in enumerate(ours.participants.values()):
        assert torch.equal(person.weights()["3.weight"], mlp(seed).state_dict()["3.weight"])


def test_the_head_is_needed():
    with pytest.raises(potluck.SettingsError, match="personal_layers"):
        FedRep(personal_layers=0)
