from __future__ import annotations

import pytest

from potluck.methods import FedAvg, FedProx
from tests.methods.plain import begun, cross_entropy, data_of, descended, lines, mean, same
from tests.tables import cnn, mlp, weights_agree


def test_two_steps_by_hand():
    """To 2 and 1.2 without a pull, then by 0.1·(8 − ½·1) to 2.75 and by 0.1·(1.6 − ½·0.2) to 1.35."""
    assert lines(FedProx(mu=0.5), epochs=2) == [[pytest.approx((2.75 + 3 * 1.35) / 4)]] * 2


def test_a_round_in_plain_pytorch():
    federation, models = begun(FedProx(mu=0.7), [cnn(i) for i in range(3)])
    start = [p.detach().clone() for p in models[0].parameters()]

    def proximal(model, x, y):
        distance = sum(((p - s) ** 2).sum() for p, s in zip(model.parameters(), start, strict=True))
        return cross_entropy(model, x, y) + 0.7 / 2 * distance

    people = list(federation.participants.values())
    trained = [descended(m, data_of(p), loss=proximal) for m, p in zip(models, people, strict=True)]
    federation.run(1)
    expected = mean([t.state_dict() for t in trained], [len(p.data) for p in people])
    expected["1.num_batches_tracked"] = trained[0].state_dict()["1.num_batches_tracked"]
    same(people[0].weights(), expected)


def test_with_mu_0_it_is_fedavg():
    models = [cnn(0, 3), mlp(1), cnn(2, 3)]
    for settings in ({"aggregation": "layerwise"}, {"aggregation": "same-architecture", "batchnorm": "local"}):
        ours, _ = begun(FedProx(mu=0, **settings), models)
        theirs, _ = begun(FedAvg(**settings), models)
        ours.run(2)
        theirs.run(2)
        weights_agree(ours.participants.values(), theirs.participants.values(), 0)
