"""The masked-window mean, by the numbers of PerHeFed's, HeteroFL's and LotteryFL's papers worked by hand."""

from __future__ import annotations

import torch
from torch import tensor

from potluck.methods.windows import WindowMean, window


def mean(old, *contributions):
    window = WindowMean(old.shape)
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
        merged = WindowMean(whole.shape)
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


def test_positions_in_a_row_are_a_slice():
    whole, rows = torch.arange(24.0).reshape(4, 6), torch.tensor([1, 2, 3])
    assert window([rows, 0], (3, 6)) == (slice(1, 4), slice(0, 6))
    assert whole[window([rows, torch.tensor([5, 0])], (3, 2))].equal(whole[1:4][:, [5, 0]])
    assert whole[window([torch.tensor([2, 1]), 0], (2, 6))].equal(whole[[2, 1]])
