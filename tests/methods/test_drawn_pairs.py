"""Pairs are drawn the same in any order, and each is as likely as any other."""

from __future__ import annotations

import torch

from potluck.methods.drawn_pairs import IN, DrawnPairs


def test_pairs_are_drawn_the_same_in_any_order_and_all_equally_likely():
    def drawn(order, seed):
        draws = DrawnPairs(3)
        for sender in order:
            values = torch.full((4, 1), float(sender))
            draws.add("shape", values, values, torch.Generator().manual_seed(100 * seed + sender))
        return draws.batches()["shape"][IN].squeeze(1).tolist()

    assert sorted(drawn([0, 1, 2], 5)) == sorted(drawn([2, 0, 1], 5))
    counts = torch.zeros(3)
    for seed in range(300):
        for sender in drawn([0, 1, 2], seed):
            counts[int(sender)] += 1
    assert (counts / counts.sum() - 1 / 3).abs().max() < 0.05
