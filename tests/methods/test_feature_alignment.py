"""Drafts of any shape, brought into one."""

from __future__ import annotations

import torch

from potluck.methods.feature_alignment import aligned, maps


class TestAligned:
    def test_down_is_a_mean_up_is_interpolated_each_side_on_its_own(self):
        draft = torch.tensor([[0.0, 2.0], [4.0, 6.0]])[None, None]
        assert aligned(draft, (1, 1, 1)).flatten().tolist() == [3]
        assert aligned(draft, (1, 1, 4)).flatten().tolist() == [2, 2.5, 3.5, 4]
        assert aligned(draft, (1, 4, 1)).flatten().tolist() == [1, 2, 4, 5]

    def test_channels_are_cut_or_padded_or_left_missing(self):
        draft = torch.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1)
        assert aligned(draft, (2, 1, 1)).flatten().tolist() == [1, 2]
        assert aligned(draft, (4, 1, 1)).flatten().tolist() == [1, 2, 3, 0]
        assert aligned(draft, (4, 1, 1), pad=False).flatten().tolist() == [1, 2, 3]

    def test_sequences_have_height_one_and_logits_stay(self):
        assert maps(torch.zeros(2, 3, 5)).shape == (2, 3, 1, 5)
        assert maps(torch.zeros(2, 3)).shape == (2, 3)
        assert aligned(torch.ones(2, 3), (3,)).tolist() == torch.ones(2, 3).tolist()
