from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from potluck.methods import MOON, FedAvg
from potluck.methods.moon import contrast
from tests.methods.plain import begun, data_of, descended, mean, same
from tests.tables import cnn, mlp, weights_agree


def test_the_contrast_by_hand():
    """Cosines 0.8 and 0.2, τ = ½."""
    z = torch.tensor([[1.0, 0.0]])
    received, previous = torch.tensor([[0.8, 0.6]]), torch.tensor([[0.2, (1 - 0.04) ** 0.5]])
    assert contrast(z, received, previous, 0.5).item() == pytest.approx(0.263282, abs=1e-6)


def loss_of(received, before):
    """MOON's loss for an mlp, whose last layer is its head."""

    def loss(model, x, y):
        z, others = model[:-1](x), [m[:-1](x).detach() for m in (received, before)]
        similar = torch.stack([F.cosine_similarity(z, other) for other in others], dim=1) / 0.4
        return F.cross_entropy(model(x), y) + 2 * F.cross_entropy(similar, torch.zeros_like(y))

    return loss


def test_two_rounds_in_plain_pytorch():
    federation, models = begun(MOON(mu=2.0, temperature=0.4), [mlp(i) for i in range(3)])
    people = list(federation.participants.values())
    received, previous = models[0], [models[0]] * 3
    for _ in range(2):
        trained = [
            descended(received, data_of(person), loss=loss_of(received, before))
            for person, before in zip(people, previous, strict=True)
        ]
        previous = trained
        received = copy.deepcopy(received)
        received.load_state_dict(mean([m.state_dict() for m in trained], [len(p.data) for p in people]))
    federation.run(2)
    for person in people:
        same(person.weights(), received.state_dict())


def test_with_mu_0_it_is_fedavg():
    models = [cnn(0), mlp(1), cnn(2)]
    ours, _ = begun(MOON(mu=0, aggregation="layerwise"), models)
    theirs, _ = begun(FedAvg(aggregation="layerwise"), [cnn(0), mlp(1), cnn(2)])
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 0)


def test_another_layer_may_be_the_feature():
    ours, _ = begun(MOON(feature="2"), [mlp(i) for i in range(2)])
    theirs, _ = begun(MOON(), [mlp(i) for i in range(2)])
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 0)
    assert sorted(ours.participants["p0"].state) == ["previous", "round"]
