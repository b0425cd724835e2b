"""Datasets to read in tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from potluck import Samples
from potluck.ingestion.user_data import read_labelled

X = torch.arange(6.0).reshape(3, 2)
Y = torch.tensor([0, 1, 0])


class Rows(Dataset[Any]):
    """A torch Dataset of pairs."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Shaken(Rows):
    """A Dataset that augments: each reading of an item differs."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + torch.rand(x.shape), y


class ByItself(Rows):
    """A Dataset with random numbers of its own, which no seed reaches."""

    def __init__(self, x, y):
        super().__init__(x, y)
        self.random = np.random.default_rng(0)

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + self.random.normal(), y


def shaken() -> Samples:
    """Samples of random items."""
    return read_labelled(Shaken(X, Y), "p").inputs.with_targets(y=Y)
