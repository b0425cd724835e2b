"""Where a window lies."""

from __future__ import annotations

import torch

from potluck.methods.windows import start_of, window

WHOLE = torch.arange(12).view(3, 4)


def test_a_window_with_starts():
    assert WHOLE[window([1, 2], (2, 2))].tolist() == [[6, 7], [10, 11]]


def test_a_window_with_gaps_in_both_dimensions():
    found = WHOLE[window([torch.tensor([0, 2]), torch.tensor([3, 0])], (2, 2))]
    assert found.tolist() == [[3, 0], [11, 8]]


def test_positions_that_follow_each_other_are_a_start():
    assert start_of(torch.tensor([2, 3, 4])) == 2
    assert torch.equal(start_of(torch.tensor([2, 4])), torch.tensor([2, 4]))
    assert start_of(5) == 5
