from __future__ import annotations

import pytest
import torch
from torch import nn

import potluck
from potluck.core.payload import Payload
from potluck.methods import FedAvg, FedBN
from tests.methods.plain import PLAN, begun, data_of, descended, mean
from tests.tables import cnn, made_data, mlp, weights_agree


class Shortcut(nn.Module):
    """A convolution, and a normalisation whose name does not say so, as in a ResNet's shortcut."""

    def __init__(self, value):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 1, bias=False)
        self.downsample = nn.Sequential(nn.Identity(), nn.BatchNorm2d(1))
        self.fc = nn.Linear(36, 3)
        with torch.no_grad():
            self.conv.weight.fill_(value)
            self.downsample[1].weight.fill_(value + 1)
            self.downsample[1].running_mean.fill_({1: 10.0, 3: 20.0}[value])

    def forward(self, x):
        return self.fc(self.downsample(self.conv(x)).flatten(1))


def test_a_normalisation_in_a_shortcut_stays_by_hand():
    people = [
        potluck.Participant(name, Shortcut(value), made_data(6, 0, dtype="float32"), plan=PLAN.replace(epochs=1))
        for name, value in (("A", 1), ("B", 3))
    ]
    federation = potluck.Federation(people, FedBN(), engine="serial")
    federation.run(0)
    federation.participants["B"].load({"conv.weight": torch.full((1, 1, 1, 1), 3.0)})
    server = federation.server
    answers = [
        (name, Payload({key: person.weights()[key] for key in server.state["layouts"][name]}))
        for name, person in federation.participants.items()
    ]
    for name, reply in FedBN().weights(server, iter(answers)).items():
        federation.participants[name].load(reply.tensors)
    a, b = (person.weights() for person in people)
    assert a["conv.weight"].item() == b["conv.weight"].item() == 2
    kept = ("downsample.1.weight", "downsample.1.running_mean")
    assert [a[name].item() for name in kept] == [2, 10]
    assert [b[name].item() for name in kept] == [4, 20]


def test_a_round_in_plain_pytorch():
    federation, models = begun(FedBN(), [cnn(i) for i in range(3)])
    people = list(federation.participants.values())
    trained = [descended(m, data_of(p)).state_dict() for m, p in zip(models, people, strict=True)]
    federation.run(1)
    average = mean(trained, [1, 1, 1])
    for person, own in zip(people, trained, strict=True):
        for name, entry in person.weights().items():
            torch.testing.assert_close(entry, own[name] if name.startswith("1.") else average[name])


def test_without_normalisation_it_is_fedavg():
    ours, _ = begun(FedBN(weighting="samples"), [mlp(i) for i in range(3)])
    theirs, _ = begun(FedAvg(), [mlp(i) for i in range(3)])
    ours.run(2)
    theirs.run(2)
    weights_agree(ours.participants.values(), theirs.participants.values(), 0)


def test_normalisation_cannot_be_averaged():
    with pytest.raises(potluck.SettingsError, match="batchnorm"):
        FedBN(batchnorm="average")
