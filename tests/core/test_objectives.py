from __future__ import annotations

import pytest
import torch

from potluck.core.labels import UNLABELLED
from potluck.core.objectives import cross_entropy, hard_and_soft

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.5, 3.0], [1.0, -2.0, 0.0]], dtype=torch.float64)


def model(x):
    """What stands for a network: its outputs are its inputs."""
    return x


def log_p(row, label, temperature=1.0):
    return (LOGITS[row] / temperature).log_softmax(dim=0)[label].item()


def test_cross_entropy_is_the_mean_over_samples():
    found = cross_entropy(model, {"x": LOGITS, "y": torch.tensor([0, 2, 1])}, {})
    assert found.item() == pytest.approx(-(log_p(0, 0) + log_p(1, 2) + log_p(2, 1)) / 3)


def test_weights_make_it_a_weighted_mean():
    batch = {"x": LOGITS, "y": torch.tensor([0, 2, 1]), "weight": torch.tensor([1.0, 0.0, 3.0])}
    assert cross_entropy(model, batch, {}).item() == pytest.approx(-(log_p(0, 0) + 3 * log_p(2, 1)) / 4)


def test_hard_and_soft_labels_are_added_each_where_there_is_one():
    soft = torch.tensor([[0.0, 0.0, 0.0], [0.2, 0.3, 0.5], [0.1, 0.9, 0.0]], dtype=torch.float64)
    batch = {"x": LOGITS, "y": torch.tensor([0, UNLABELLED, 1]), "soft": soft}
    hard = -(log_p(0, 0) + log_p(2, 1))
    of_soft = -sum(soft[row, label].item() * log_p(row, label, 2.0) for row in range(3) for label in range(3))
    found = hard_and_soft(model, batch, {"temperature": 2.0})
    assert found.item() == pytest.approx((hard + of_soft) / 3)
