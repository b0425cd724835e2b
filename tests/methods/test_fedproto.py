"""FedProto by numbers worked out by hand, rounds against plain PyTorch, and answers by the nearest prototype."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import potluck
from potluck import Participant, Payload
from potluck.federation.server import Server
from potluck.methods import FedProto, Local
from potluck.methods.fedproto import distance_to_prototypes
from potluck.methods.prototypes import class_means_payload
from tests.tables import headed_cnn, made_data, mlp, participants, weights_agree

A = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 0, 1])
B = torch.tensor([[6.0, 0.0]]), torch.tensor([0])


def answered(method, *told, means=None, counts=None):
    server = Server(seed=0, participant_weights={})
    means = torch.zeros(2, 2) if means is None else means
    server.state.update(means=means, counts=torch.zeros(2, dtype=torch.int64) if counts is None else counts)
    payloads = [(str(i), class_means_payload(*one, 2, method.weighting)) for i, one in enumerate(told)]
    return method.prototypes(server, iter(payloads))


@pytest.mark.parametrize(("weighting", "first"), [("uniform", 4.0), ("samples", 10 / 3)])
def test_prototypes_worked_by_hand(weighting, first):
    """A's means are (2, 0) and (0, 4), B's (6, 0)."""
    reply = answered(FedProto(weighting=weighting), A, B)
    torch.testing.assert_close(reply["means"], torch.tensor([[first, 0.0], [0.0, 4.0]]))


def test_a_class_that_nobody_of_the_round_has_keeps_its_prototype():
    reply = answered(FedProto(), B, means=torch.tensor([[1.0, 1.0], [7.0, 7.0]]), counts=torch.tensor([1, 2]))
    assert reply["means"].tolist() == [[6.0, 0.0], [7.0, 7.0]]
    assert reply["counts"].tolist() == [1, 2]


def test_the_loss_worked_by_hand():
    """(1, 0) is (3² + 0²)/2 = 4.5 away from (4, 0); class 1 has no prototype; the mean over both samples is 2.25."""
    features, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 1])
    prototypes, known = torch.tensor([[4.0, 0.0], [0.0, 0.0]]), torch.tensor([True, False])
    assert distance_to_prototypes(features, y, prototypes, known).item() == 2.25


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_two_rounds_equal_plain_pytorch(weighting):
    """One step each: the first without prototypes, the second with everybody's. The second one lacks a class."""
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = [
        Participant("p0", mlp(0), made_data(24, 0), plan=plan, labels=range(3)),
        Participant("p1", headed_cnn(1), made_data(17, 1, (0, 1)), plan=plan, labels=range(3)),
    ]
    potluck.Federation(people, FedProto(weight=0.5, weighting=weighting), seed=2, engine="serial").run(2)

    nets, bodies, prototypes = [mlp(0), headed_cnn(1)], [slice(0, 3), slice(0, 3)], {}
    for _ in range(2):
        found = []
        for net, body, person in zip(nets, bodies, people, strict=True):
            x, y = person.data.x, person.data.y
            net.train()
            features = net[body](x)
            loss = F.cross_entropy(net[-1](features), y)
            for i, label in enumerate(y.tolist()):
                if label in prototypes:
                    loss = loss + 0.5 * ((features[i] - prototypes[label]) ** 2).mean() / len(y)
            gradients = torch.autograd.grad(loss, list(net.parameters()))
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter.data -= 0.1 * gradient
            net.eval()
            with torch.no_grad():
                features = net[body](x)
            found.append({label: (features[y == label].mean(0), int((y == label).sum())) for label in set(y.tolist())})
        for label in range(3):
            owned = [one[label] for one in found if label in one]
            weights = [n if weighting == "samples" else 1 for _, n in owned]
            prototypes[label] = sum(w * mean for w, (mean, _) in zip(weights, owned, strict=True)) / sum(weights)
    for person, net in zip(people, nets, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-6, atol=1e-7)
        expected = torch.stack([prototypes[label] for label in range(3)]).float()
        torch.testing.assert_close(person.state["prototypes"], expected, rtol=1e-5, atol=1e-6)


def test_without_the_term_it_trains_as_local():
    runs = [participants([mlp(0), headed_cnn(1)]) for _ in range(2)]
    for people, method in zip(runs, [FedProto(weight=0), Local()], strict=True):
        potluck.Federation(people, method, seed=4, engine="serial").run(2)
    weights_agree(*runs, 1e-12)


class Doubled(nn.Module):
    """Its features are twice its inputs; its head says the opposite of what they mean."""

    def __init__(self):
        super().__init__()
        self.features = nn.Linear(2, 2, bias=False)
        self.head = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.features.weight.copy_(2 * torch.eye(2))
            self.head.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))

    def forward(self, x):
        return self.head(self.features(x))


def test_a_participant_answers_by_the_nearest_prototype():
    """Of the prototypes (4, 0) and (0, 4), the feature (2, 0) is 2 and √20 away, the feature (0, 4) √32 and 0."""
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    me = Participant("A", Doubled(), (x, ["left", "right"]))
    potluck.Federation([me], FedProto(), engine="serial")
    assert me.predict(x).tolist() == ["right", "left"], "by its own head: there are no prototypes yet"
    me.state.update(prototypes=torch.tensor([[4.0, 0.0], [0.0, 4.0]]), known=torch.tensor([True, True]))
    assert me.predict(x).tolist() == ["left", "right"]
    expected = torch.tensor([[-2.0, -(20**0.5)], [-(32**0.5), 0.0]])
    np.testing.assert_allclose(me.predict_proba(x), expected.softmax(dim=1).numpy(), rtol=1e-6)
    me.state["known"] = torch.tensor([False, True])
    assert me.predict_proba(x).tolist() == [[0.0, 1.0], [0.0, 1.0]], "nobody has prototypes of the first class"


def test_only_prototypes_travel():
    rows = potluck.Federation(participants([mlp(0), headed_cnn(1)]), FedProto()).run(2).rows()
    size = Payload({"means": torch.zeros(3, 8), "counts": torch.zeros(3, dtype=torch.int64)}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2} == {(size, size)}
