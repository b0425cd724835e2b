"""FedGH by numbers worked out by hand, and rounds against plain PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import potluck
from potluck import Participant
from potluck.methods import FedGH
from tests.tables import headed_cnn, made_data, mlp, participants


def fitted(means, y):
    """A zero head without bias after one step of the server at a rate of 0.1."""
    head = torch.zeros(2, 2, requires_grad=True)
    F.cross_entropy(means @ head.T, y).backward()
    return -0.1 * head.grad


def test_the_head_worked_by_hand():
    """A's means are (1, 0) and (0, 2), B's (3, 0): pairs are not averaged over participants first."""
    data = {"A": (torch.tensor([[1.0, 0.0], [0.0, 2.0]]), [0, 1]), "B": (torch.tensor([[3.0, 0.0]]), [0])}

    def model():
        body, head = torch.nn.Linear(2, 2, bias=False), torch.nn.Linear(2, 2, bias=False)
        torch.nn.init.eye_(body.weight)
        torch.nn.init.zeros_(head.weight)
        return torch.nn.Sequential(body, head)

    plan = potluck.Plan(epochs=0)
    people = [Participant(name, model(), own, plan=plan, labels=range(2)) for name, own in data.items()]
    server = {"lr": 0.1, "batch_size": 99}
    potluck.Federation(people, FedGH(server_plan=server), engine="serial").run(1)
    expected = torch.tensor([[0.066667, -0.033333], [-0.066667, 0.033333]])
    for person in people:
        torch.testing.assert_close(person.weights()["1.weight"], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(fitted(torch.tensor([[1.0, 0], [0, 2], [3, 0]]), torch.tensor([0, 1, 0])), expected)


def test_two_rounds_equal_plain_pytorch():
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = [
        Participant("p0", mlp(0), made_data(24, 0), plan=plan, labels=range(3)),
        Participant("p1", headed_cnn(1), made_data(17, 1, (0, 1)), plan=plan, labels=range(3)),
    ]
    server_plan = {"lr": 0.3, "epochs": 2, "batch_size": 99}
    potluck.Federation(people, FedGH(server_plan=server_plan), seed=2, engine="serial").run(2)

    nets = [mlp(0), headed_cnn(1)]
    nets[1][3].load_state_dict(nets[0][3].state_dict())
    head = [parameter.detach().clone().requires_grad_() for parameter in nets[0][3].parameters()]
    for _ in range(2):
        means, labels = [], []
        for net, person in zip(nets, people, strict=True):
            x, y = person.data.x, person.data.y
            net.train()
            gradients = torch.autograd.grad(F.cross_entropy(net(x), y), list(net.parameters()))
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter.data -= 0.1 * gradient
            net.eval()
            with torch.no_grad():
                features = net[:3](x)
            for label in y.unique():
                means.append(features[y == label].mean(0).float())
                labels.append(label)
        for _ in range(2):
            output = torch.stack(means).double() @ head[0].T + head[1]
            gradients = torch.autograd.grad(F.cross_entropy(output, torch.stack(labels)), head)
            for parameter, gradient in zip(head, gradients, strict=True):
                parameter.data -= 0.3 * gradient
        for net in nets:
            net[3].load_state_dict({"weight": head[0].detach(), "bias": head[1].detach()})
    for person, net in zip(people, nets, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-6, atol=1e-7)


def test_without_training_at_the_server_heads_go_back_as_they_were():
    people = participants([mlp(0), headed_cnn(1)])
    potluck.Federation(people, FedGH(server_plan={"epochs": 0}), seed=3, engine="serial").run(1)
    for person in people:
        torch.testing.assert_close(person.weights()["3.weight"], mlp(0).state_dict()["3.weight"])
