"""The augmentations that come with Potluck, worked out by hand."""

from __future__ import annotations

import re

import pytest
import torch

import potluck
from potluck.data import Crop, Cutout, Flip, Normalize

X = torch.arange(1.0, 49.0).reshape(2, 2, 3, 4)


def test_a_crop_moves_a_picture():
    found = Crop(1).apply(X, torch.tensor([[0, 0], [1, 2]]))
    assert found[0, 0].tolist() == [[0, 0, 0, 0], [0, 1, 2, 3], [0, 5, 6, 7]]
    assert torch.equal(found[1, :, :, :3], X[1, :, :, 1:])
    assert not found[1, :, :, 3].any()
    assert torch.equal(Crop(0)(X, torch.Generator()), X)


def test_crops_begin_anywhere_in_the_padding():
    drawn = Crop(2).draw(1000, torch.Generator().manual_seed(0))
    assert drawn.shape == (1000, 2)
    assert set(drawn.flatten().tolist()) == {0, 1, 2, 3, 4}


def test_a_flip_mirrors_some():
    found = Flip().apply(X, torch.tensor([True, False]))
    assert found[0, 0, 0].tolist() == [4, 3, 2, 1]
    assert torch.equal(found[1], X[1])
    share = Flip(0.25).draw(4000, torch.Generator().manual_seed(0)).float().mean()
    assert 0.22 < share < 0.28


def test_a_cutout_may_stand_over_the_edge():
    found = Cutout(2).apply(torch.ones(2, 1, 3, 4), torch.tensor([[0.0, 0.0], [0.5, 0.99]]))
    assert found[0, 0].tolist() == [[0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert found[1, 0].tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize("one", [Crop(1), Flip(), Cutout(2)], ids=str)
def test_each_sample_is_changed_by_its_own_numbers_alone(one):
    x = torch.rand(6, 3, 5, 4)
    drawn = one.draw(6, torch.Generator().manual_seed(1))
    whole = one.apply(x, drawn)
    each = torch.cat([one.apply(x[n : n + 1], drawn[n : n + 1]) for n in range(6)])
    assert torch.equal(whole, each)
    assert not torch.equal(whole, x)
    grey = (255 * x[:, 0]).byte()
    assert one.apply(grey, drawn).shape == grey.shape
    assert one.apply(grey, drawn).dtype == torch.uint8


def test_normalisation_of_all_numbers_and_of_each_channel():
    assert torch.equal(Normalize(2, 4)(X), (X - 2) / 4)
    each = Normalize([1, 2], torch.tensor([2.0, 4.0]))(X)
    assert torch.equal(each[:, 0], (X[:, 0] - 1) / 2)
    assert torch.equal(each[:, 1], (X[:, 1] - 2) / 4)
    assert torch.equal(Normalize([1, 2], 5)(X[:, :, 0, 0]), (X[:, :, 0, 0] - torch.tensor([1.0, 2.0])) / 5)


def test_bytes_are_divided_before_they_are_normalised():
    x = torch.tensor([[0, 255]], dtype=torch.uint8)
    assert Normalize(0.5, 0.5)(x).tolist() == [[-1, 1]]
    assert Normalize(1, 2)(x.long()).tolist() == [[-0.5, 127]]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Crop(-1), "padding is -1"),
        (lambda: Flip(2), "share is 2"),
        (lambda: Cutout(0), "size is 0"),
        (lambda: Normalize(0, 0), "none of 0 to divide by"),
        (lambda: Normalize([1, 2], [1, 2, 3]), "2 means for 3 deviations"),
        (lambda: Normalize([1, 2, 3], 1)(X), "3 numbers for samples of shape (2, 3, 4)"),
        (lambda: Crop()(X[0, 0], torch.Generator()), "Crop(padding=4) reads pictures"),
        (lambda: Flip()({"a": X}, torch.Generator()), "Flip(share=0.5) reads pictures"),
        (lambda: Normalize(0, 1)({"a": X}), "reads one tensor"),
    ],
)
def test_what_makes_no_sense_is_told(make, told):
    with pytest.raises((potluck.SettingsError, potluck.DataError), match=re.escape(told)):
        make()


def test_they_may_be_named_in_a_plan():
    plan = potluck.Plan(augment=["potluck.data:Crop", Flip(0.3)], transform=Normalize(0.1, 0.3))
    assert str(plan.augment) == "['Crop(padding=4)', 'Flip(share=0.3)']"
    assert potluck.Plan(augment="potluck.data:Cutout").augment == Cutout(8)
