from __future__ import annotations

import pytest
import torch

from potluck.methods import FedAvg, FedPer
from tests.methods.plain import begun, data_of, descended, lines, mean
from tests.tables import cnn, weights_agree


def test_a_round_by_hand():
    """Body and head go to 2 and to 1.2; the body is averaged by samples."""
    one, three = lines(FedPer(), layers=2)
    assert one == [pytest.approx(1.4), pytest.approx(2)]
    assert three == [pytest.approx(1.4), pytest.approx(1.2)]


def test_two_rounds_in_plain_pytorch():
    """The base is averaged by samples; the head and BatchNorm's statistics stay."""
    federation, models = begun(FedPer(), [cnn(i) for i in range(3)])
    people = list(federation.participants.values())
    states = [model.state_dict() for model in models]
    for _ in range(2):
        for model, state in zip(models, states, strict=True):
            model.load_state_dict(state)
        trained = [descended(m, data_of(p)).state_dict() for m, p in zip(models, people, strict=True)]
        average = mean(trained, [len(p.data) for p in people])
        common = ("0.weight", "1.weight", "1.bias")
        states = [{name: average[name] if name in common else own[name] for name in own} for own in trained]
    federation.run(2)
    for person, state in zip(people, states, strict=True):
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, state[name])


def test_with_no_personal_layer_it_is_fedavg():
    ours, _ = begun(FedPer(personal_layers=0, batchnorm="average"), [cnn(i) for i in range(3)])
    theirs, _ = begun(FedAvg(), [cnn(i) for i in range(3)])
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 0)
