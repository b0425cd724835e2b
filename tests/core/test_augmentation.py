"""Augmentations in two halves, as functions of a batch, and of one sample."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from potluck.core.augmentation import Augmentation, Augmenter, Chain, of_one_sample

X = torch.arange(12.0).reshape(4, 3)


class Plus(Augmentation):
    def __init__(self, size):
        self.size = size

    def draw(self, count, generator):
        return self.size * torch.rand(count, generator=generator)

    def apply(self, x, drawn):
        return x + drawn[:, None]


class Bare:
    """Two halves, and nothing else."""

    def draw(self, count, generator):
        return torch.randint(2, (count,), generator=generator)

    def apply(self, x, drawn):
        return x * drawn[:, None]


def noisy(x, generator):
    return x + torch.rand(x.shape, generator=generator)


class LikeV2(nn.Module):
    """Draws once at each call, and takes any number of inputs."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, *inputs):
        self.seen.append([part.shape for part in inputs])
        shift = torch.rand(())
        found = [part + shift for part in inputs]
        return found[0] if len(found) == 1 else tuple(found)


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


def test_two_halves_are_called_as_one():
    whole = Plus(2)(X, seeded())
    assert torch.equal(whole, X + 2 * torch.rand(4, generator=seeded())[:, None])
    assert torch.equal(Augmenter([Plus(2)])(X, seeded()), whole)


def test_several_in_two_halves_are_one_in_two_halves():
    both = Augmenter([Plus(2), Bare()])
    assert isinstance(both.halves, Chain)
    draws = seeded()
    expected = Plus(2)(X, draws)
    expected = Bare().apply(expected, Bare().draw(4, draws))
    assert torch.equal(both(X, seeded()), expected)
    assert torch.equal(both.halves.apply(X, both.halves.draw(4, seeded())), expected)


def test_forms_are_mixed_in_order():
    mixed = Augmenter([Plus(2), noisy, Bare()])
    assert mixed.halves is None
    draws = seeded()
    expected = noisy(Plus(2)(X, draws), draws)
    assert torch.equal(mixed(X, seeded()), Bare().apply(expected, Bare().draw(4, draws)))


def test_what_reads_one_sample_gets_one_at_a_time_and_draws_by_the_seed():
    one, before = LikeV2(), torch.get_rng_state()
    found = Augmenter([one])(X, seeded())
    assert torch.equal(torch.get_rng_state(), before)
    assert one.seen == [[torch.Size([3])]] * 4
    shifts = (found - X)[:, 0]
    torch.testing.assert_close(found - X, shifts[:, None].expand(-1, 3))
    assert len(set(shifts.tolist())) == 4, "each sample has its own"
    torch.testing.assert_close(Augmenter([LikeV2()])(X, seeded()), found, rtol=0, atol=0)
    assert not torch.equal(Augmenter([LikeV2()])(X, seeded(4)), found)


def test_two_that_read_one_sample_draw_apart():
    twice = Augmenter([LikeV2(), LikeV2()])(X, seeded()) - X
    once = Augmenter([LikeV2()])(X, seeded()) - X
    assert not torch.allclose(twice, 2 * once)


def test_samples_of_several_inputs_are_handed_over_as_they_are():
    x = {"a": X, "b": X[:, 0]}
    found = Augmenter([lambda sample: {"a": sample["a"].flip(0), "b": sample["b"] + 1}])(x, seeded())
    assert torch.equal(found["a"], X.flip(1))
    assert torch.equal(found["b"], X[:, 0] + 1)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x, True),
        (lambda *inputs: inputs, True),
        (LikeV2(), True),
        (nn.Identity(), True),
        (noisy, False),
        (lambda x, generator=None: x, False),
        (lambda x, *rest: x, False),
        (partial(noisy, generator=None), True),
        (torch.neg, False),
    ],
)
def test_what_reads_one_sample_is_known_by_its_arguments(function, expected):
    assert of_one_sample(function) == expected


def test_what_cannot_augment_is_refused():
    with pytest.raises(ValueError, match="augment holds 3"):
        Augmenter([noisy, 3])
