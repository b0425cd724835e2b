"""What is found in networks is what is put into them."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import potluck
from potluck.core.errors import DataError
from potluck.methods import FedIN, Local
from potluck.models import resnet
from potluck.reproduction import inspections

DEPTHS = (10, 14, 18)


def federation(method=None, depths=DEPTHS):
    source = potluck.data.load("generated-images", samples=240, size=16, channels=3)
    people = [
        potluck.Participant(
            f"resnet{depth}-{place}",
            partial(resnet, depth, width=4),
            (source.x[place::4][:40], source.y[place::4][:40]),
            labels=source.labels,
            plan=potluck.Plan(epochs=1, batch_size=16),
        )
        for place, depth in enumerate(depths)
    ]
    return potluck.Federation(people, method or Local(), test=(source.x_test, source.y_test), device="cpu")


@pytest.fixture(scope="module")
def played():
    found = federation(FedIN(), (*DEPTHS, 18))
    found.run(1)
    return found


def test_there_is_one_of_each_architecture(played):
    names = [person.name for person in inspections.one_of_each(played)]
    assert names == [f"resnet{depth}-{place}" for place, depth in enumerate(DEPTHS)]


def test_stages_are_compared_one_by_one(played):
    found = inspections.similarity_of_stages(played)
    assert list(found) == [f"CKA stage {number}" for number in (1, 2, 3, 4)]
    assert all(0 < value < 1 for value in found.values())


def test_equal_networks_see_alike(played):
    person = inspections.one_of_each(played)[0]
    inputs = inspections.shown_inputs(played, person)
    first = inspections.features(person, inputs, ["layer1", "layer4"])
    assert not person.model.training
    again = inspections.features(person, inputs, ["layer1", "layer4"])
    assert torch.equal(first["layer4"], again["layer4"])
    assert len(inputs) == 60
    labels = played.test_of(person).y
    assert len(inspections.shown_inputs(played, person, label=0)) == int((labels == 0).sum())


def test_architectures_part_by_so_much(played):
    for look in (inspections.separation_of_architectures, inspections.separation_in_a_class):
        (value,) = look(played).values()
        assert -1 <= value <= 1


def test_noise_keeps_images(played):
    other = federation(FedIN(noise=5.0))
    other.run(1)
    clear, noisy = inspections.rebuilt_images(played), inspections.rebuilt_images(other)
    assert clear["reconstruction loss"] < 0.2
    assert noisy["reconstruction loss"] > 5 * clear["reconstruction loss"]


def test_one_architecture_alone_is_told():
    alike = federation(depths=(10, 10))
    alike.run(1)
    with pytest.raises(DataError, match="expected two at least"):
        inspections.similarity_of_stages(alike)
