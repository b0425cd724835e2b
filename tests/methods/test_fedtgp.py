"""FedTGP by numbers worked out by hand, and the server's training against plain PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck.methods import FedProto, FedTGP
from potluck.methods.fedtgp import adaptive_margin, margin_loss
from tests.tables import headed_cnn, mlp, participants, weights_agree

CENTRES = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 10.0]])


@pytest.mark.parametrize(("margin", "limit", "expected"), [("max-min", 100, 45**0.5), ("max", 100, 10), ("max", 5, 5)])
def test_the_margin_worked_by_hand(margin, limit, expected):
    """Distances 5, 10 and √45: each centre's nearest other is 5, 5 and √45 away."""
    assert adaptive_margin(CENTRES, limit, margin) == pytest.approx(expected)


def test_a_class_alone_has_the_largest_margin():
    assert adaptive_margin(CENTRES[:1], 7.0, "max-min") == 7.0


@pytest.mark.parametrize(("margin", "expected"), [(1.0, 0.693147), (0.0, 0.313262)])
def test_the_loss_worked_by_hand(margin, expected):
    """(0, 0) of class 0 is 1 and 2 away from the prototypes; a margin of 1 makes that 2 and 2."""
    prototypes = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    loss = margin_loss(torch.zeros(1, 2), torch.tensor([0]), prototypes, torch.tensor(margin))
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_a_distance_of_zero_has_a_slope():
    prototypes = torch.zeros(2, 2, requires_grad=True)
    margin_loss(torch.zeros(1, 2), torch.tensor([0]), prototypes, torch.tensor(1.0)).backward()
    assert torch.isfinite(prototypes.grad).all()


@pytest.mark.parametrize("keep", [False, True])
def test_two_rounds_of_the_server_equal_plain_pytorch(keep):
    """Two epochs in one batch; the server's network is kept, and its momentum if asked for."""

    def joined(epochs):
        server_plan = potluck.Plan(optimizer="sgd", lr=0.05, momentum=0.9, epochs=epochs, batch_size=99)
        method = FedTGP(weight=0.5, server_plan=server_plan, keep_server_optimizer=keep)
        people = participants([mlp(0), headed_cnn(1)], plan=potluck.Plan(optimizer="sgd", lr=0.1, batch_size=1000))
        return potluck.Federation(people, method, seed=2, engine="serial"), people

    untrained, _ = joined(0)
    untrained.run(1)
    parameters = [e.clone().requires_grad_() for e in untrained.server.models["prototypes"].weights().values()]
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    federation, people = joined(2)
    for _ in range(2):
        federation.run(1)
        told = [features_of(person) for person in people]
        x, y = torch.cat([means for means, _ in told]), torch.cat([labels for _, labels in told])
        centres = torch.stack([x[y == label].mean(0) for label in range(3)])
        apart = torch.cdist(centres, centres) + torch.diag(torch.full((3,), torch.inf))
        margin = min(100.0, apart.min(1).values.max().item())
        if not keep:
            optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
        for _ in range(2):
            e, w1, b1, w2, b2 = parameters
            prototypes = F.linear(F.relu(F.linear(e, w1, b1)), w2, b2)
            optimizer.zero_grad()
            F.cross_entropy(-(torch.cdist(x, prototypes) + margin * F.one_hot(y, 3)), y).backward()
            optimizer.step()
    found = federation.server.models["prototypes"].weights()
    for entry, expected in zip(found.values(), parameters, strict=True):
        torch.testing.assert_close(entry, expected.detach(), rtol=1e-4, atol=1e-5)
    e, w1, b1, w2, b2 = parameters
    learned = F.linear(F.relu(F.linear(e, w1, b1)), w2, b2).detach()
    torch.testing.assert_close(people[1].state["prototypes"], learned, rtol=1e-4, atol=1e-5)


def features_of(person):
    """The trained model's mean feature of each class, and the classes."""
    person.model.eval()
    with torch.no_grad():
        features = person.model[:3](person.data.x).float()
    labels = person.data.y.unique()
    return torch.stack([features[person.data.y == label].mean(0) for label in labels]), labels


def test_the_first_round_is_fedprotos():
    """There is no prototype yet, so both train alike."""
    runs = [participants([mlp(0), headed_cnn(1)]) for _ in range(2)]
    for people, method in zip(runs, [FedTGP(), FedProto()], strict=True):
        potluck.Federation(people, method, seed=4, engine="serial").run(1)
    weights_agree(*runs, 1e-12)
