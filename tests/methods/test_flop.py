from __future__ import annotations

import pytest
import torch

from potluck.methods import FLOP, FedPer
from tests.methods.plain import begun, data_of, descended, lines, mean
from tests.tables import cnn, weights_agree


def test_a_round_by_hand():
    """Body and head go to 2 and to 1.2; bodies count the same."""
    one, three = lines(FLOP(), layers=2)
    assert one == [pytest.approx(1.6), pytest.approx(2)]
    assert three == [pytest.approx(1.6), pytest.approx(1.2)]


def test_a_round_in_plain_pytorch():
    """Everything but the head takes the plain mean, running statistics too."""
    federation, models = begun(FLOP(), [cnn(i) for i in range(3)])
    people = list(federation.participants.values())
    trained = [descended(m, data_of(p)).state_dict() for m, p in zip(models, people, strict=True)]
    federation.run(1)
    average = mean(trained, [1, 1, 1])
    for person, own in zip(people, trained, strict=True):
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, own[name] if name.startswith("4.") else average[name].to(entry.dtype))


def test_it_is_fedper_with_its_settings():
    ours, _ = begun(FLOP(), [cnn(i) for i in range(3)])
    theirs, _ = begun(FedPer(weighting="uniform", batchnorm="average"), [cnn(i) for i in range(3)])
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 0)
