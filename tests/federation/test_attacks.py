"""What each attack makes of what a participant would send, or of its data, worked out by hand."""

from __future__ import annotations

import pytest
import torch

import potluck
from potluck.core.classification import Classification
from potluck.core.samples import Samples
from potluck.federation.attacks import (
    ATTACKS,
    ALittleIsEnough,
    Backdoor,
    Gaussian,
    Honest,
    InnerProduct,
    LabelFlip,
    ScaledUpdate,
    SignFlip,
    as_attack,
)
from tests.tables import made_data, mlp, participants

OWN, RECEIVED = torch.tensor([3.0, 5.0]).double(), torch.tensor([1.0, 1.0]).double()
HONEST = Honest(torch.tensor([2.0, 4.0]).double(), torch.tensor([0.5, 1.0]).double())
TASK = Classification(labels=(0, 1, 2))


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (SignFlip(), [-1, -3]),
        (SignFlip(factor=2), [-3, -7]),
        (ScaledUpdate(factor=10), [21, 41]),
        (InnerProduct(factor=2), [-1, -5]),
        (ALittleIsEnough(deviations=2), [1, 2]),
        (LabelFlip(), [3, 5]),
        (Backdoor(factor=2), [5, 9]),
    ],
)
def test_what_is_sent_instead(attack, expected):
    assert attack.lie(OWN, RECEIVED, HONEST, draw()).tolist() == expected


def test_noise_is_so_many_times_as_long_as_what_was_learned():
    own, received = torch.full((10_000,), 3.0).double(), torch.ones(10_000).double()
    lie = Gaussian(factor=5).lie(own, received, HONEST, draw())
    assert (lie - received).std().item() == pytest.approx(10, rel=0.05)
    assert torch.equal(lie, Gaussian(factor=5).lie(own, received, HONEST, draw()))


def test_labels_are_flipped_and_what_has_none_stays():
    data = Samples({"x": torch.zeros(4, 1), "y": torch.tensor([0, 1, 2, -1])})
    assert LabelFlip().poisoned(data, TASK, "p", draw()).y.tolist() == [2, 1, 0, -1]


@pytest.mark.parametrize("shape", [(1, 4, 4), (6,)])
def test_a_backdoor_marks_a_share_of_the_samples(shape):
    data = Samples({"x": torch.zeros(8, *shape), "y": torch.ones(8).long()})
    found = Backdoor(target=2, share=0.5, value=9.0).poisoned(data, TASK, "p", draw())
    marked = found.x.flatten(1).amax(dim=1) == 9
    assert marked.sum() == 4
    assert found.y.tolist() == [2 if mark else 1 for mark in marked]
    assert (found.x[marked] == 9).flatten(1).sum(dim=1).tolist() == [4 if len(shape) > 1 else 2] * 4
    assert not data.x.any()


def test_every_attack_has_a_name():
    for name, kind in ATTACKS.items():
        assert kind().name == name
        assert as_attack(name, "p") == as_attack({"name": name}, "p") == kind()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("scalling", "p0: There is no attack 'scalling'. Did you mean 'scaling'"),
        (3, "p0: attack = 3; expected a name"),
        ({"name": "scaling", "factor": 0}, "factor = 0"),
    ],
)
def test_what_is_no_attack_is_told(given, told):
    with pytest.raises(potluck.SettingsError, match=told):
        participants([mlp(0)], attack=given)
    assert as_attack(None, "p") is None


def test_labels_are_needed_to_flip_them():
    x, _ = made_data(20, 0)
    person = potluck.Participant("p0", mlp(0), (x, x.mean(axis=(1, 2, 3))), task="regression", attack="label-flip")
    with pytest.raises(potluck.RequirementsError, match="p0: label-flip changes labels"):
        potluck.Federation([person], potluck.methods.Local())


def test_a_backdoor_opens_to_a_label_that_there_is():
    people = participants([mlp(0)], attack={"name": "backdoor", "target": 3})
    with pytest.raises(potluck.RequirementsError, match="expected a position below 3"):
        potluck.Federation(people, potluck.methods.Local())
