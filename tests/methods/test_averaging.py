"""The masked-window mean, by the numbers of PerHeFed's, HeteroFL's and LotteryFL's papers worked by hand."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import tensor

from potluck.methods import averaging as windows
from potluck.methods.averaging import MaskedMean
from potluck.methods.windows import window


def mean(old, *contributions):
    window = MaskedMean(old.shape)
    for value, weight, at, mask in contributions:
        window.add(tensor(value), weight, at, None if mask is None else tensor(mask))
    return window.result(old)


def test_perhefed_windows_with_offsets():
    """A and C hold two filters, B three; each counts by how many parameters it shares."""
    found = mean(
        torch.zeros(3), ([1.0, 2.0], 2, [0], None), ([4.0, 5.0, 6.0], 3, [0], None), ([10.0, 20.0], 2, [1], None)
    )
    torch.testing.assert_close(found, tensor([2.8, 39 / 7, 11.6]))


def test_perhefed_a_filter_that_is_not_shared_does_not_count():
    found = mean(
        torch.zeros(3), ([1.0, 2.0], 1, [0], [1, 0]), ([4.0, 5.0, 6.0], 3, [0], None), ([10.0, 20.0], 2, [1], None)
    )
    torch.testing.assert_close(found, tensor([3.25, 7.0, 11.6]))


def test_heterofl_positions_nobody_holds_keep_their_value():
    old = torch.full((2, 2), 9.0)
    whole, half = ([[1.0, 2.0], [3.0, 4.0]], 1, None, None), ([[5.0]], 1, None, None)
    torch.testing.assert_close(mean(old, whole, half), tensor([[3.0, 2.0], [3.0, 4.0]]))
    torch.testing.assert_close(mean(old, half), tensor([[5.0, 9.0], [9.0, 9.0]]))


def test_fedrolex_windows_wrap_round():
    """K = 5, round 3: A holds {3, 4, 0}, B holds {3}; everything was 10."""
    found = mean(
        torch.full((5,), 10.0), ([1.0, 2.0, 3.0], 1, [tensor([3, 4, 0])], None), ([5.0], 1, [tensor([3])], None)
    )
    torch.testing.assert_close(found, tensor([3.0, 10.0, 10.0, 3.0, 2.0]))


def test_positions_in_several_dimensions_meet_everywhere():
    whole = torch.arange(24.0).reshape(4, 3, 2)
    rows, columns = tensor([3, 0]), tensor([2, 1])
    for at in ([rows, columns, 0], [rows, 1, 0], [rows, columns, tensor([1])], [1, columns, 1], [2, 1, 0]):
        shape = [2, 2, 1]
        taken = [list(p) if isinstance(p, torch.Tensor) else range(p, p + n) for p, n in zip(at, shape, strict=True)]
        expected = [whole[i, j, k].item() for i in taken[0] for j in taken[1] for k in taken[2]]
        assert whole[window(at, shape)].flatten().tolist() == expected
        merged = MaskedMean(whole.shape)
        merged.add(torch.full(shape, 2.0), at=at)
        merged.add(torch.full(shape, 5.0), 2.0, at)
        found = merged.result(whole)
        assert (found[window(at, shape)] == 4.0).all()
        assert (found != whole).sum() == sum(value != 4.0 for value in expected)


def test_lotteryfl_masked_mean():
    old = torch.zeros(3)
    found = mean(
        old,
        ([1.0, 2.0, 0.0], 1, None, [1, 1, 0]),
        ([3.0, 0.0, 5.0], 1, None, [1, 0, 1]),
        ([5.0, 6.0, 0.0], 1, None, [1, 1, 0]),
    )
    torch.testing.assert_close(found, tensor([3.0, 4.0, 5.0]))


def test_counters_stay_whole_numbers():
    found = mean(tensor(0), (3, 1, None, None), (6, 1, None, None))
    assert found.dtype == torch.int64
    assert found.item() == 4


def plainly(old, contributions):
    """The same mean, one position after the other."""
    sums, weights = torch.zeros(old.shape, dtype=torch.float64), torch.zeros(old.shape, dtype=torch.float64)
    for value, weight, at, mask in contributions:
        place = window([0] * value.ndim if at is None else at, value.shape)
        share = weight * (torch.ones(value.shape) if mask is None else mask).double()
        sums[place] += value.double() * share
        weights[place] += share
    return torch.where(weights > 0, sums / weights.where(weights > 0, 1.0), old.double()).to(old.dtype)


def drawn(kind, draw, whole=(7, 5, 3)):
    """A contribution: all of it, some rows of all or of a part of it, a part, a masked part, positions anywhere."""
    rows = torch.randperm(7, generator=draw)[:3]
    shape, at, mask = {
        "whole": (whole, None, None),
        "rows": ((3, 5, 3), [rows, 0, 0], None),
        "rows of a part": ((3, 2, 3), [rows, 1, 0], None),
        "part": ((4, 5, 2), [2, 0, 1], None),
        "corner": ((4, 2, 2), None, None),
        "masked": ((4, 5, 2), [2, 0, 1], torch.rand(4, 5, 2, generator=draw) < 0.5),
        "positions": ((3, 2, 3), [rows, tensor([4, 0]), 0], None),
    }[kind]
    return torch.randn(shape, generator=draw), float(torch.randint(0, 4, (), generator=draw)), at, mask


KINDS = ["whole", "rows", "rows of a part", "part", "corner", "masked", "positions"]


@pytest.mark.parametrize("block", [1, 10, 10_000])
@pytest.mark.parametrize("kinds", [[kind] for kind in KINDS] + [KINDS, ["rows", "whole"], ["part", "corner"]], ids=str)
def test_any_mixture_of_windows_is_what_it_is_one_position_after_the_other(kinds, block, monkeypatch):
    monkeypatch.setattr(windows, "BLOCK_VALUES", block)
    draw = torch.Generator().manual_seed(len(kinds) + block)
    contributions = [drawn(kind, draw) for _ in range(5) for kind in kinds]
    old = torch.randn(7, 5, 3, generator=draw)
    for order in (contributions, contributions[::-1]):
        merged = MaskedMean(old.shape)
        for contribution in order:
            merged.add(*contribution)
        torch.testing.assert_close(merged.result(old), plainly(old, contributions), rtol=1e-6, atol=1e-7)
        exact = merged.result(old.double())
        torch.testing.assert_close(exact, plainly(old.double(), contributions), rtol=1e-12, atol=1e-12)


def test_nothing_added_leaves_a_copy_of_the_old_value():
    old = torch.ones(3)
    found = MaskedMean(old.shape).result(old)
    assert found.equal(old)
    assert found.data_ptr() != old.data_ptr()


def test_a_contribution_that_counts_nothing_changes_nothing():
    torch.testing.assert_close(mean(torch.full((2,), 9.0), ([1.0, 2.0], 0, None, None)), torch.full((2,), 9.0))


def test_a_few_contributions_wait_and_no_more():
    """What was merged is let go: a federation's worth of models would not fit into memory."""
    for size, waiting in ((4, 0), (windows.BLOCK_VALUES + 1, windows.GROUP - 1)):
        merged, alive = MaskedMean((size,)), []
        for number in range(3 * windows.GROUP - 1):
            value = torch.full((size,), float(number))
            alive.append(weakref.ref(value))
            merged.add(value)
        del value
        assert sum(value() is not None for value in alive) == waiting
        assert merged.result(torch.zeros(size))[0].item() == pytest.approx((3 * windows.GROUP - 2) / 2)


def test_no_positions_at_all_add_nothing():
    merged = MaskedMean((3, 2))
    merged.add(torch.ones(3, 2))
    merged.add(torch.full((0, 2), 9.0), 5.0, [torch.empty(0, dtype=torch.int64), 0])
    assert merged.result(torch.zeros(3, 2)).tolist() == [[1.0, 1.0]] * 3


def test_weights_of_many_different_windows_take_no_more_memory_than_those_of_each_position():
    mean = MaskedMean((3, 6))
    for start in range(5):
        mean.add(torch.full((2, 2), float(start)), at=(1, start))
    for start in range(5):
        mean.add(torch.full((3, 1), 9.0), at=(0, start))
    assert sum(weights.numel() for weights in vars(mean)["_rows"].values()) <= 3 * 6
    found = mean.result(torch.full((3, 6), -1.0, dtype=torch.float64))
    assert found[0].tolist() == [9.0] * 5 + [-1.0]
    assert found[1].tolist() == [(0 + 9) / 2, *((start - 1 + start + 9) / 3 for start in range(1, 5)), 4.0]
    assert torch.equal(found[1], found[2])
