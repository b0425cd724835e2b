"""FCCL by numbers worked out by hand, and rounds against plain PyTorch."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import potluck
from potluck import Payload
from potluck.core.model_view import ModelView
from potluck.core.randomness import generator
from potluck.core.samples import Samples
from potluck.federation.server import Server
from potluck.methods import FCCL
from potluck.methods.fccl import correlation_loss, correlations, earlier_loss
from tests.tables import cnn, made_data, mlp, participants

OWN = torch.tensor([[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]], dtype=torch.float64)
OTHER = torch.tensor([[1.0, 4.0], [2.0, 1.0], [3.0, -2.0]], dtype=torch.float64)
MEAN = torch.tensor([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]], dtype=torch.float64)


def test_the_mean_has_ones_own_logits_in_it():
    told = [(name, Payload({"logits": logits})) for name, logits in (("A", OWN), ("B", OTHER))]
    torch.testing.assert_close(FCCL().mean(Server(0, {}), iter(told))["logits"], MEAN)


@pytest.mark.parametrize(("similarity", "expected"), [("cosine", 4.0204), ("code", 2.903622)])
def test_the_correlations_worked_by_hand(similarity, expected):
    """Everybody's second column falls as one's own two rise: M = ((1, −1), (1, −1))."""
    scale = 1 if similarity == "cosine" else 2 / 3
    torch.testing.assert_close(correlations(OWN, MEAN, similarity), scale * torch.tensor([[1.0, -1.0]] * 2).double())
    context = {"off_diagonal": 0.0051, "similarity": similarity}
    loss = correlation_loss(lambda x: x, {"x": OWN, "mean": MEAN}, context)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_a_constant_column_has_a_slope():
    own = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    correlation_loss(lambda x: x, {"x": own, "mean": MEAN}, {"off_diagonal": 0.1, "similarity": "cosine"}).backward()
    assert torch.isfinite(own.grad).all()


def test_the_local_loss_worked_by_hand():
    """Logits (0, 0), label 0, teachers (¾, ¼) and (¼, ¾): ln 2 + 2 · .130812."""
    x = torch.zeros(1, 2)
    teachers = {"intra": lambda x: x + torch.tensor([math.log(3), 0.0]), "previous": lambda x: x - math.log(3) * one}
    one = torch.tensor([1.0, 0.0])
    loss = earlier_loss(lambda x: x, {"x": x, "y": torch.tensor([0])}, teachers)
    assert loss.item() == pytest.approx(0.693147 + 2 * 0.130812, abs=1e-5)


def test_two_rounds_equal_plain_pytorch():
    public = made_data(30, 60)[0]
    plan = potluck.Plan(optimizer="sgd", lr=0.05, epochs=1, batch_size=1000)
    method = FCCL(pretrain_epochs=2, public_batch_size=99, off_diagonal=0.1)
    people = participants([mlp(0), mlp(1, 5)], plan=plan)
    potluck.Federation(people, method, public=public, seed=4, engine="serial").run(2)

    def descend(net, loss):
        for parameter, gradient in zip(
            net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True
        ):
            parameter.data -= 0.05 * gradient

    nets, inputs = [mlp(0), mlp(1, 5)], torch.from_numpy(public)
    kept = []
    for net, person in zip(nets, people, strict=True):
        for _ in range(2):
            descend(net, F.cross_entropy(net(person.data.x), person.data.y))
        kept.append(_copy(net))
    previous = [_copy(net) for net in nets]
    for _ in range(2):
        mean = sum(net(inputs).detach().float().double() for net in nets) / 2
        for i, (net, person) in enumerate(zip(nets, people, strict=True)):
            z = net(inputs)
            loss = 0
            for u in range(3):
                for v in range(3):
                    m = F.cosine_similarity(z[:, u] - z[:, u].mean(), (mean[:, v] - mean[:, v].mean()).float(), dim=0)
                    loss = loss + ((1 - m) ** 2 if u == v else 0.1 * (1 + m) ** 2)
            descend(net, loss)
            x, y = person.data.x, person.data.y
            loss = F.cross_entropy(net(x), y)
            for teacher in (kept[i], previous[i]):
                said = teacher(x).softmax(1).detach()
                loss = loss + (said * (said.log() - net(x).log_softmax(1))).sum(1).mean()
            descend(net, loss)
            previous[i] = _copy(net)
    for person, net in zip(people, nets, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("own", ["present", "previous"])
def test_an_exchange_at_every_batch_equals_plain_pytorch(own):
    """Two epochs of batches of 20 and 10, the same for both, each a step of an Adam of its own: a step of signs."""
    public, size = made_data(30, 60)[0], 20
    plan = potluck.Plan(lr=0.01, epochs=0)
    method = FCCL(pretrain_epochs=0, public_batch_size=size, public_epochs=2, exchange_every="batch", own=own)
    people = participants([mlp(0), mlp(1, 5)], plan=plan)
    potluck.Federation(people, method, public=public, seed=4, engine="serial").run(2)

    nets, inputs = [mlp(0), mlp(1, 5)], torch.from_numpy(public)
    for number in (1, 2):
        before = [net(inputs).detach() for net in nets]
        for epoch in range(2):
            order = torch.randperm(30, generator=generator(4, "FCCL's public batches", number, epoch))
            for rows in order.split(size):
                said = [net(inputs[rows]).detach() for net in nets]
                for i, net in enumerate(nets):
                    told = [before[j][rows] if j == i and own == "previous" else said[j] for j in range(2)]
                    context = {"off_diagonal": 0.0051, "similarity": "cosine"}
                    loss = correlation_loss(net, {"x": inputs[rows], "mean": sum(told) / 2}, context)
                    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
    for person, net in zip(people, nets, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-4, atol=1e-5)


def test_logits_of_another_batch_are_refused():
    """Batches of 20 and 10: what has the first one's size is none of the second."""
    method = FCCL(public_batch_size=20, exchange_every="batch")
    server = Server(0, {"a": 1.0}, Samples({"x": torch.zeros(30, 1)}), round=1)
    server.state["labels"] = [0, 1]
    first, second = (Payload({"logits": torch.zeros(rows, 2)}) for rows in (20, 10))
    method.logits_schema(server, "a").check(first)
    method.mean(server, iter([("a", first)]))
    method.logits_schema(server, "a").check(second)
    with pytest.raises(potluck.PayloadError, match=r"shape \(20, 2\); expected \(10, 2\)"):
        method.logits_schema(server, "a").check(first)


def _copy(net):
    twin = mlp(0, net[1].out_features)
    twin.load_state_dict(net.state_dict())
    return twin


def test_the_model_of_before_stays_and_the_last_rounds_moves():
    people = participants([mlp(0), cnn(1)])
    federation = potluck.Federation(people, FCCL(pretrain_epochs=1), public=made_data(20, 60)[0], engine="serial")
    federation.run(1)
    before = {name: entry.clone() for name, entry in people[0].state["intra"].items()}
    federation.run(1)
    torch.testing.assert_close(people[0].state["intra"], before)
    torch.testing.assert_close(people[0].state["previous"], people[0].weights())


def test_a_networks_view_is_what_the_loss_reads():
    net = mlp(0)
    batch = {"x": torch.from_numpy(made_data(6, 0)[0]), "mean": torch.randn(6, 3)}
    loss = correlation_loss(ModelView(net), batch, {"off_diagonal": 0.1, "similarity": "cosine"})
    assert loss.requires_grad
