from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import potluck
from potluck.methods import SCAFFOLD, FedAvg
from tests.methods.plain import PLAN, begun, cross_entropy, data_of, same
from tests.tables import cnn, made_data, mlp, participants, weights_agree


def drifting(model, data, c, own, steps=2, lr=0.05):
    """y after local steps of y ← y − η(g − c_i + c), and the new c_i."""
    y = copy.deepcopy(model).train()
    for _ in range(steps):
        gradients = torch.autograd.grad(cross_entropy(y, *data), list(y.parameters()))
        for p, g, mine, all_ in zip(y.parameters(), gradients, own, c, strict=True):
            p.data -= lr * (g - mine + all_)
    moved = zip(own, c, model.parameters(), y.parameters(), strict=True)
    return y, [mine - all_ + (old - new).detach() / (steps * lr) for mine, all_, old, new in moved]


@pytest.mark.parametrize("participation", [1.0, 2])
def test_two_rounds_in_plain_pytorch(participation):
    """Participants who sit out keep their c_i, and N counts them."""
    federation, models = begun(SCAFFOLD(server_lr=0.8), [mlp(i) for i in range(3)], participation=participation)
    people = list(federation.participants.values())
    zeros = [torch.zeros_like(p) for p in models[0].parameters()]
    x, c, own = copy.deepcopy(models[0]), zeros, {p.name: zeros for p in people}
    federation.run(2)
    for number in (1, 2):
        rows = [row for row in federation.history.rows() if row["round"] == number and row["took_part"]]
        present = [person for person in people if person.name in {row["participant"] for row in rows}]
        trained, changes = [], []
        for person in present:
            y, new = drifting(x, data_of(person), c, own[person.name])
            changes.append([a - b for a, b in zip(new, own[person.name], strict=True)])
            trained.append(y)
            own[person.name] = new
        for i, p in enumerate(x.parameters()):
            average = sum(list(y.parameters())[i] for y in trained) / len(present)
            p.data += 0.8 * (average.data - p.data)
        c = [old + sum(change[i] for change in changes) / 3 for i, old in enumerate(c)]
    last = present[0]
    same(last.weights(), x.state_dict())
    for name, mine, all_ in zip(dict(x.named_parameters()), own[last.name], c, strict=True):
        torch.testing.assert_close(last.state["own"][name], mine)
        torch.testing.assert_close(last.state["c"][name], all_)


class Line(nn.Module):
    """One weight; its loss has the gradient 2 everywhere (as logits' difference would not: see ``steep``)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1, 1, dtype=torch.float64))

    def forward(self, x):
        return x.flatten(1)[:, :1] @ self.w.expand(1, 2)


def steep(model, batch, context):
    return 2 * model.parameters["w"].sum()


def test_a_round_by_hand(monkeypatch):
    """x = 1, η = 0.1, K = 2, g = 2, c = 0.2, c_i = 0.5: y = 0.66, c_i = 2.0, c = 0.35 of ten participants."""

    class Steep(SCAFFOLD):
        def training(self, me):
            fit = super().training(me)
            return potluck.Fit(steep, combine_gradients=fit.combine_gradients, context=fit.context)

    data = (torch.zeros(4, 3, dtype=torch.float64), [0, 1, 0, 1])
    plan = PLAN.replace(lr=0.1)
    people = [potluck.Participant(f"p{i}", Line(), data, plan=plan) for i in range(10)]
    federation = potluck.Federation(people, Steep(), engine="serial", participation=1)
    federation.run(0)
    (key,) = Steep().controlled(federation.server, "p0").values()
    federation.server.state["control"] = {key: torch.tensor([[0.2]], dtype=torch.float64)}
    for person in people:
        person.state["c"] = {"w": torch.tensor([[0.2]], dtype=torch.float64)}
        person.state["own"] = {"w": torch.tensor([[0.5]], dtype=torch.float64)}
    rows = federation.run(1).rows()
    there = federation.participants[next(row["participant"] for row in rows if row["took_part"])]
    assert there.weights()["w"].item() == pytest.approx(0.66)
    assert there.state["own"]["w"].item() == pytest.approx(2.0)
    assert there.state["c"]["w"].item() == pytest.approx(0.35)


def test_one_participant_alone_is_fedavg():
    """c is c_i from the first round on, so nothing is corrected."""
    ours, _ = begun(SCAFFOLD(), [cnn(0)])
    theirs, _ = begun(FedAvg(), [cnn(0)])
    ours.run(3)
    theirs.run(3)
    weights_agree(ours.participants.values(), theirs.participants.values(), 1e-12)


def test_on_mixed_models_each_entry_has_its_control_variate():
    federation, _ = begun(SCAFFOLD(aggregation="layerwise"), [cnn(0), mlp(1), cnn(2), mlp(3)])
    federation.run(2)
    people = federation.participants
    weights_agree([people["p0"]], [people["p2"]], 0)
    weights_agree([people["p1"]], [people["p3"]], 0)
    for one, other in (("p0", "p2"), ("p1", "p3")):
        for name, c in people[one].state["c"].items():
            torch.testing.assert_close(c, people[other].state["c"][name], rtol=0, atol=0)
            mean = (people[one].state["own"][name] + people[other].state["own"][name]) / 2
            torch.testing.assert_close(c, mean)


def test_with_momentum_the_change_is_still_a_gradient():
    """From zero control variates one's own becomes the mean gradient, each step's counted as momentum does."""
    plan = PLAN.replace(momentum=0.9, epochs=3)
    federation, (model, _) = begun(SCAFFOLD(optimizers="any"), [mlp(0), mlp(1)], plan=plan)
    me = federation.participants["p0"]
    net, gradients = copy.deepcopy(model), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        cross_entropy(net, *data_of(me)).backward()
        gradients.append([p.grad.clone() for p in net.parameters()])
        optimizer.step()
    federation.run(1)
    a = (2.71, 1.9, 1.0)  # how often each gradient has moved the weights
    for i, name in enumerate(dict(net.named_parameters())):
        expected = sum(count * found[i] for count, found in zip(a, gradients, strict=True)) / sum(a)
        torch.testing.assert_close(me.state["own"][name], expected)


@pytest.mark.parametrize("change", [{"optimizer": "adam"}, {"momentum": 0.9}, {"schedule": "cosine"}])
def test_other_optimizers_are_refused_unless_asked_for(change):
    people = participants([mlp(0), mlp(1)], plan=PLAN.replace(**change))
    with pytest.raises(potluck.RequirementsError, match="SCAFFOLD needs plain SGD at a constant rate"):
        potluck.Federation(people, SCAFFOLD()).run(1)
    potluck.Federation(people, SCAFFOLD(optimizers="any"), test=made_data(9, 1)).run(1)
