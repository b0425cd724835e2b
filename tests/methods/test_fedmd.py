"""FedMD by numbers worked out by hand, and a round against plain PyTorch."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck import Payload
from potluck.core.randomness import generator
from potluck.federation.server import Server
from potluck.methods import FedMD
from potluck.methods.fedmd import digest_loss
from tests.tables import made_data, mlp, participants


def test_consensus_and_loss_worked_by_hand():
    """Logits (1, 3) and (3, 5) have the mean (2, 4), from which either is 1 away."""
    told = [(name, Payload({"scores": torch.tensor([row])})) for name, row in (("A", [1.0, 3.0]), ("B", [3.0, 5.0]))]
    consensus = FedMD().consensus(Server(seed=0, participant_weights={}), iter(told))["scores"]
    assert consensus.tolist() == [[2.0, 4.0]]
    for _, payload in told:
        batch = {"x": payload["scores"], "consensus": consensus}
        assert digest_loss(lambda x: x, batch, {"scores": "logits"}).item() == 1.0


def test_the_error_of_probabilities():
    """softmax(0, 0) is ¼ away from (¾, ¼)."""
    batch = {"x": torch.zeros(1, 2), "consensus": torch.tensor([[0.75, 0.25]])}
    assert digest_loss(lambda x: x, batch, {"scores": "probabilities"}).item() == 0.25


@pytest.mark.parametrize("labelled", [True, False])
def test_two_rounds_equal_plain_pytorch(labelled):
    """Full batches, one epoch each: public, private; then twice scores, digest, revisit. Half of the public set."""
    public = made_data(30, 60)
    method = FedMD(
        pretrain=labelled, subset=15, digest_epochs=1, digest_batch_size=99, revisit_epochs=1, revisit_batch_size=99
    )
    plan = potluck.Plan(optimizer="sgd", lr=0.1, epochs=1, batch_size=1000)
    people = participants([mlp(0), mlp(1, 5)], plan=plan)
    federation = potluck.Federation(people, method, public=public if labelled else public[0], seed=4, engine="serial")
    federation.run(2)

    nets, own = [mlp(0), mlp(1, 5)], [(p.data.x, p.data.y) for p in people]
    x, y = torch.from_numpy(public[0]), torch.from_numpy(public[1])

    def descend(net, loss):
        for parameter, gradient in zip(
            net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True
        ):
            parameter.data -= 0.1 * gradient

    def cross_entropy(net, inputs, labels):
        return -net(inputs).log_softmax(1)[torch.arange(len(labels)), labels].mean()

    for net, data in zip(nets, own, strict=True):
        if labelled:
            descend(net, cross_entropy(net, x, y))
        descend(net, cross_entropy(net, *data))
    for number in (1, 2):
        rows = torch.randperm(30, generator=generator(4, "FedMD's public subset", number))[:15]
        mean = sum(net(x[rows]).detach().float().double() for net in nets) / 2
        for net, data in zip(nets, own, strict=True):
            descend(net, (net(x[rows]) - mean.float().double()).abs().mean())
            descend(net, cross_entropy(net, *data))
    for person, net in zip(people, nets, strict=True):
        torch.testing.assert_close(person.weights(), dict(net.state_dict()), rtol=1e-6, atol=1e-7)


def test_scores_of_the_rounds_samples_travel_and_nothing_else():
    federation = potluck.Federation(participants([mlp(0), mlp(1)]), FedMD(subset=12), public=made_data(30, 60))
    rows = federation.run(2).rows()
    size = Payload({"scores": torch.zeros(12, 3)}).size
    assert {(row["bytes_up"], row["bytes_down"]) for row in rows if row["round"] == 2} == {(size, size)}


def test_without_labels_on_public_data_the_need_is_told():
    with pytest.raises(potluck.RequirementsError, match="labels on the public data"):
        potluck.Federation(participants([mlp(0), mlp(1)]), FedMD(), public=made_data(30, 60)[0])
