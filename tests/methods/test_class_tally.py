"""Means of what is met while training."""

from __future__ import annotations

import torch

from potluck.core.model_view import ModelView
from potluck.methods.class_tally import ClassTally, count_in, met_means


def test_means_of_two_batches_by_hand():
    """Class 0 is met with (1, 2) and (3, 4), class 2 with (5, 0); nothing is met in evaluation mode."""
    tally = ClassTally(3)
    first = torch.tensor([[1.0, 2.0, 0.0], [5.0, 0.0, 1.0]], requires_grad=True)
    count_in(ModelView(tally), first, torch.tensor([0, 2]))
    count_in(ModelView(tally), torch.tensor([[3.0, 4.0, 0.0]]), torch.tensor([0]))
    count_in(ModelView(tally.eval()), torch.full((1, 3), 9.0), torch.tensor([1]))
    payload = met_means(tally.state_dict())
    assert payload["means"].tolist() == [[2, 3, 0], [0, 0, 0], [5, 0, 1]]
    assert payload["counts"].tolist() == [1, 0, 1]
    assert not payload["means"].requires_grad
