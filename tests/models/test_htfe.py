"""HtFLlib's family of eight: what they read, how large they are, and that heads and prototypes fit all of them."""

from __future__ import annotations

import importlib
from functools import partial

import numpy as np
import pytest
import torch

import potluck
from potluck.core.errors import ModelError, SettingsError
from potluck.models import build
from potluck.models.htfe import MEMBERS, htfe

OURS = ["cnn", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]
THEIRS = ["googlenet", "mobilenet_v2"]


@pytest.fixture
def torchvision():
    try:
        return importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision is not installed, or was built for another torch: {error}")


def count(member):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build("htfe", (3, 32, 32), 10, member=member).parameters())


def test_sizes_by_hand():
    """FedAvg's: two convolutions with bias, 1,600 numbers to 512 units, and the last layer."""
    assert count("cnn") == 32 * (3 * 25 + 1) + 64 * (32 * 25 + 1) + 512 * (1600 + 1) + 10 * (512 + 1)
    assert count("resnet18") == 11_181_642, "the last layer of torchvision's reads 512 features, too"
    assert count("resnet50") == 23_508_032 + 10 * (512 + 1)


def test_the_others_are_torchvisions(torchvision):
    assert count("googlenet") == sum(
        p.numel() for p in torchvision.googlenet(weights=None, aux_logits=False, init_weights=True).parameters()
    ) - 1000 * (1024 + 1) + 10 * (512 + 1)
    network = build("htfe", (1, 28, 28), 3, member="mobilenet_v2")
    assert network(torch.zeros(2, 1, 28, 28)).shape == (2, 3)
    assert not any(getattr(layer, "inplace", False) for layer in network.modules())


@pytest.mark.parametrize("member", ["cnn", "resnet18", "resnet50"])
def test_features_are_averaged_to_as_many_for_all(member):
    network = build("htfe", (1, 28, 28), 3, member=member, features=32).eval()
    with torch.no_grad():
        before = network.base(torch.ones(2, 1, 28, 28))
        assert before.shape[1] > 32
        assert network.pool(before).shape == (2, 32)
        if before.shape[1] % 32 == 0:
            torch.testing.assert_close(network.pool(before), before.reshape(2, 32, -1).mean(dim=2))


def test_what_cannot_be_is_told(monkeypatch):
    assert set(MEMBERS) == {*OURS, *THEIRS}
    with pytest.raises(SettingsError, match=r"member = 'vgg'; expected one of 'cnn', 'googlenet'"):
        build("htfe", (3, 32, 32), 10, member="vgg")
    with pytest.raises(ModelError, match="16×16 pixels and up"):
        build("htfe", (1, 8, 8), 10, member="cnn")

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ModelError, match=r"googlenet needs torchvision: pip install '.\[vision\]'"):
        build("htfe", (3, 32, 32), 10, member="googlenet")


def learn(members):
    """A round of FedProto among them."""
    random = np.random.default_rng(0)
    data = [(random.normal(size=(6, 1, 16, 16)), random.integers(2, size=6)) for _ in members]
    people = [
        potluck.Participant(
            f"p{place}",
            partial(htfe, member=member, features=16),
            own,
            labels=range(2),
            test=own,
            plan=potluck.Plan(lr=1e-3, batch_size=6),
        )
        for place, (member, own) in enumerate(zip(members, data, strict=True))
    ]
    return potluck.Federation(people, potluck.methods.FedProto(), engine="batched").run(1)


def test_prototypes_fit_networks_of_all_sizes():
    assert all(not row["refused"] for row in learn(["cnn", "resnet18"]).rows())


@pytest.mark.slow
def test_all_eight_learn_together(torchvision):
    assert all(not row["refused"] for row in learn([*OURS, *THEIRS]).rows())
