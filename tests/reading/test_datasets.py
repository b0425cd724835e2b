from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from potluck import DataError
from potluck.reading.given import read_labelled
from tests.reading.datasets import ByItself, Rows, X, Y, shaken

ALL = torch.arange(3)


def test_a_dataset_of_random_items_can_be_read_anew():
    samples = shaken()
    assert torch.equal(samples.x, shaken().x), "the first reading has a seed, too"
    assert torch.equal(samples.read(ALL, 1), samples.read(ALL, 1))
    for other in (samples.x, samples.read(ALL, 2)):
        assert not torch.equal(samples.read(ALL, 1), other)
    assert (samples.read(ALL, 1) - X).abs().max() < 1
    assert samples.read(ALL, 1).dtype == samples.x.dtype


@pytest.mark.parametrize("data", [TensorDataset(X, Y), Rows(X, Y), (X, Y)])
def test_what_is_the_same_each_time_is_read_once(data):
    inputs = read_labelled(data, "p").inputs
    assert inputs.reader is None
    assert torch.equal(inputs.read(torch.tensor([2, 0]), 1), X[[2, 0]])


def test_a_dataset_that_no_seed_decides_is_refused():
    with pytest.raises(DataError, match=r"clinic: reading item 0 of the ByItself twice .* torch\.rand"):
        read_labelled(ByItself(X, Y), "clinic")


def test_reading_a_dataset_leaves_the_global_generators_alone():
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    shaken().read(ALL, 1)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == states[1:]
