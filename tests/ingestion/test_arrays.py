from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck import DataError
from potluck.ingestion.arrays import as_inputs, as_targets, as_weights
from tests.ingestion.datasets import X, Y


@pytest.mark.parametrize(
    "given",
    [X, X.numpy(), X.tolist(), X.clone().requires_grad_(), X.T.contiguous().numpy().T, X.numpy()[::-1][::-1]],
    ids=["torch", "numpy", "list", "with gradient", "transposed", "flipped twice"],
)
def test_inputs_may_be_a_tensor_an_array_or_a_list(given):
    found = as_inputs(given, "p")
    assert torch.equal(found, X.to(found.dtype))
    assert not found.requires_grad


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32", "float64", "bool"])
def test_inputs_keep_their_dtype(dtype):
    assert as_inputs(np.ones((2, 2), dtype=dtype), "p").numpy().dtype == dtype


@pytest.mark.parametrize("given", [np.zeros((0, 2)), torch.zeros(0, 2), [], np.array(1.0), torch.tensor(1.0)])
def test_no_inputs_are_an_error(given):
    with pytest.raises(DataError, match="clinic: no samples"):
        as_inputs(given, "clinic")


@pytest.mark.parametrize("given", [[["a"], ["b"]], np.array([{}, {}]), np.array(["2020-01-01"], dtype="datetime64[D]")])
def test_inputs_that_are_no_numbers_are_an_error(given):
    with pytest.raises(DataError, match=r"clinic: inputs of type .*; expected numbers"):
        as_inputs(given, "clinic")


def test_rows_of_unequal_length_are_an_error_in_plain_words():
    with pytest.raises(DataError, match="clinic"):
        as_inputs([[1.0, 2.0], [3.0]], "clinic")


def test_gaps_are_read_as_they_are():
    assert bool(as_inputs([[1.0, float("nan")]], "p").isnan().any())


def test_arrays_that_cannot_be_written_to_are_copied():
    locked = np.zeros((2, 2))
    locked.flags.writeable = False
    as_inputs(locked, "p").add_(1)
    assert not locked.any()


def test_targets_are_one_for_each_input():
    assert as_targets(Y, 3, "p").tolist() == [0, 1, 0]
    with pytest.raises(DataError, match=r"p: 2 inputs but labels of shape \(3,\)"):
        as_targets(Y, 2, "p")


@pytest.mark.parametrize("bad", [[1, 2], [1, -1, 1], [1, float("nan"), 1], ["a", "b", "c"], [[1], [1], [1]], [0, 0, 0]])
def test_weights_are_numbers_one_for_each_sample_and_not_all_0(bad):
    with pytest.raises(DataError, match=r"clinic: .*sample weights"):
        as_weights(bad, 3, "clinic")


def test_numbers_in_another_byte_order_are_numbers():
    big = np.arange(6.0).reshape(3, 2).astype(">f8")
    assert as_inputs(big, "a").equal(torch.arange(6.0, dtype=torch.float64).reshape(3, 2))


def test_a_sparse_tensor_is_told_what_to_become():
    with pytest.raises(DataError, match=r"inputs are a sparse tensor; expected a dense one: `x.to_dense\(\)`"):
        as_inputs(torch.eye(3).to_sparse(), "a")
