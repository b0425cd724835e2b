from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from potluck import DataError, Samples
from potluck.core.classification import Classification
from potluck.core.labels import UNLABELLED
from potluck.core.samples import InputSource, SharedData, as_inputs, as_pair, as_pair_and_reader

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


def test_columns_must_have_one_length():
    with pytest.raises(DataError, match=r"one length; got {'x': 3, 'y': 2}"):
        Samples({"x": X, "y": Y[:2]})


def test_samples_know_their_length_inputs_and_labels():
    samples = Samples({"x": X, "y": Y})
    assert len(samples) == 3
    assert samples.labelled
    assert samples.x is X
    assert samples.y is Y


def test_asking_for_labels_that_are_not_there_is_an_error():
    samples = Samples({"x": X})
    assert not samples.labelled
    with pytest.raises(DataError, match="carry no labels"):
        _ = samples.y


def test_rows_are_taken_in_the_order_given_from_every_column():
    taken = Samples({"x": X, "y": Y, "soft": X + 1}).take(torch.tensor([2, 1]))
    assert torch.equal(taken.x, X[[2, 1]])
    assert taken.y.tolist() == [0, 1]
    assert torch.equal(taken.columns["soft"], X[[2, 1]] + 1)


def test_targets_are_further_columns():
    soft, weight = torch.ones(3, 4), torch.tensor([1.0, 2.0, 3.0])
    samples = Samples({"x": X, "y": Y}).with_targets({"soft": soft}, weight=weight)
    assert set(samples.columns) == {"x", "y", "soft", "weight"}
    assert samples.columns["soft"] is soft
    assert samples.columns["weight"] is weight
    assert set(samples.inputs().columns) == {"x"}


def test_targets_replace_a_column_of_the_same_name_and_leave_the_original_alone():
    samples = Samples({"x": X, "y": Y})
    assert samples.with_targets(y=1 - Y).y.tolist() == [1, 0, 1]
    assert samples.y is Y


def test_targets_of_another_length_are_an_error():
    with pytest.raises(DataError, match="'soft': 2"):
        Samples({"x": X}).with_targets(soft=torch.ones(2))


def test_joining_sets_fills_what_one_of_them_lacks():
    labelled = Samples({"x": X, "y": Y})
    weighted = Samples({"x": X[:2], "weight": torch.tensor([0.5, 0.25])})
    softened = Samples({"x": X[:1], "y": Y[1:2], "soft": torch.ones(1, 4)})
    both = Samples.concat([labelled, weighted, softened])
    assert torch.equal(both.x, torch.cat([X, X[:2], X[:1]]))
    assert both.y.tolist() == [0, 1, 0, UNLABELLED, UNLABELLED, 1]
    assert both.columns["weight"].tolist() == [1, 1, 1, 0.5, 0.25, 1]
    assert both.columns["soft"].sum(dim=1).tolist() == [0, 0, 0, 0, 0, 4]
    assert both.y.dtype == torch.int64


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


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_inputs_that_are_not_finite_are_counted_in_the_error(bad, make):
    with pytest.raises(DataError, match="clinic: 2 of 3 samples hold NaN or infinity"):
        as_inputs(make([[1.0, bad], [0.0, 0.0], [bad, bad]]), "clinic")


@pytest.mark.parametrize("given", [[["a"], ["b"]], np.array([{}, {}]), np.array(["2020-01-01"], dtype="datetime64[D]")])
def test_inputs_that_are_no_numbers_are_an_error(given):
    with pytest.raises(DataError, match=r"clinic: inputs of type .*; expected numbers"):
        as_inputs(given, "clinic")


def test_rows_of_unequal_length_are_an_error_in_plain_words():
    with pytest.raises(DataError, match="clinic"):
        as_inputs([[1.0, 2.0], [3.0]], "clinic")


@pytest.mark.parametrize(
    "data",
    [
        (X, Y),
        [X, Y],
        (X.numpy(), Y.numpy()),
        (X.tolist(), Y.tolist()),
        TensorDataset(X, Y),
        Rows(X.numpy(), Y.tolist()),
    ],
    ids=["torch", "list", "numpy", "lists", "TensorDataset", "Dataset"],
)
def test_data_may_be_a_pair_or_a_dataset(data):
    x, y = as_pair(data, "p")
    assert torch.equal(x, X.to(x.dtype))
    assert y.tolist() == [0, 1, 0]


def test_labels_stay_in_the_words_they_came_in():
    assert as_pair((X, ["cat", "dog", "cat"]), "p")[1].tolist() == ["cat", "dog", "cat"]


def test_a_dataset_may_have_strings_as_labels():
    assert as_pair(Rows(X, ["cat", "dog", "cat"]), "p")[1].tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize("data", [(X,), (X, Y, Y), None, "data", {"x": X, "y": Y}])
def test_other_data_is_an_error_that_says_what_was_expected(data):
    with pytest.raises(DataError, match=r"clinic: data is a .*; expected \(x, y\) or a torch Dataset"):
        as_pair(data, "clinic")


@pytest.mark.parametrize("y", [Y[:2], torch.tensor(1)], ids=["short", "scalar"])
def test_there_must_be_one_label_for_each_input(y):
    with pytest.raises(DataError, match=r"clinic: 3 inputs but labels of shape .*; expected one label for each"):
        as_pair((X, y), "clinic")


def test_inputs_alone_have_no_targets():
    for data in (X, torch.as_tensor(X), (X, None)):
        inputs, targets, reader = as_pair_and_reader(data, "clinic")
        assert (len(inputs), targets, reader) == (3, None, None)


def test_several_targets_for_a_sample_are_brought_as_they_are():
    assert as_pair((X, [[0, 1], [1, 0], [1, 1]]), "clinic")[1].shape == (3, 2)
    assert as_pair((X, [["a"], [], ["a", "b"]]), "clinic")[1].tolist() == [["a"], [], ["a", "b"]]


def test_labels_that_are_not_finite_are_an_error():
    with pytest.raises(DataError, match="clinic: labels hold NaN or infinity"):
        as_pair((X, [0.0, 1.0, float("nan")]), "clinic")


def test_an_empty_dataset_is_an_error():
    with pytest.raises(DataError, match="clinic: the Dataset is empty"):
        as_pair(Rows(X[:0], []), "clinic")


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


def shaken():
    x, _, reader = as_pair_and_reader(Shaken(X, Y), "p")
    return Samples({"x": x, "y": Y}, reader)


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
    x, _, reader = as_pair_and_reader(data, "p")
    assert reader is None
    assert torch.equal(Samples({"x": x}).read(torch.tensor([2, 0]), 1), X[[2, 0]])


def test_a_dataset_that_no_seed_decides_is_refused():
    with pytest.raises(DataError, match=r"clinic: reading item 0 of the ByItself twice .* torch\.rand"):
        as_pair(ByItself(X, Y), "clinic")


def test_reading_a_dataset_leaves_the_global_generators_alone():
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    shaken().read(ALL, 1)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == states[1:]


def whole_part(found):
    """Which row of X each random reading is of."""
    return [next(i for i, row in enumerate(X) if bool(((found_row - row).abs() < 1).all())) for found_row in found]


def test_parts_of_random_items_are_read_by_their_own_rows():
    some = shaken().take(torch.tensor([2, 0])).take(torch.tensor([1, 0, 1]))
    found = some.read(torch.tensor([0, 1, 2]), 5)
    assert whole_part(found) == [0, 2, 0]
    assert not torch.equal(found[0], found[2])
    assert shaken().with_targets(weight=torch.ones(3)).reader is not None
    assert not torch.equal(shaken().inputs().read(ALL, 1), shaken().x)


def test_random_items_joined_with_others_stay_random_and_the_others_do_not():
    both = Samples.concat([Samples({"x": X[:2]}), shaken(), Samples({"x": X[:1]})])
    found = both.read(torch.tensor([5, 0, 4, 1, 2]), 3)
    assert torch.equal(found[[0, 1, 3]], X[[0, 0, 1]])
    assert whole_part(found[[2, 4]]) == [2, 0]
    assert not torch.equal(found[2], both.x[4])
    assert Samples.concat([Samples({"x": X}), Samples({"x": X})]).reader is None


# Data that all may see


def test_each_label_space_sees_the_labels_it_knows():
    shared = SharedData(torch.arange(4.0).reshape(4, 1), np.array(["a", "b", "a", "c"]))
    assert shared.whole(Classification(("a", "b"))).y.tolist() == [0, 1, 0, -1]
    known = shared.known(Classification(("a", "b")))
    assert known is not None
    assert (known.x.flatten().tolist(), known.y.tolist()) == ([0.0, 1.0, 2.0], [0, 1, 0])
    assert shared.known(Classification(("d", "e"))) is None
    every = Classification(("a", "b", "c"))
    assert shared.known(every) is shared.whole(every), "one copy, where all are known"
    assert shared.known(Classification(("a", "b"))) is known, "and one for each label space"


def test_data_without_labels_are_shown_without():
    assert "y" not in SharedData(torch.zeros(2, 1)).whole(Classification(("a",))).columns


def test_a_source_of_inputs_counts_as_a_column():
    class Ten(InputSource):
        """Ten rows."""

        def __len__(self):
            return 10

        read = take = kinds = digest = then = None

    with pytest.raises(DataError, match=r"one length; got \{'y': 3, 'x': 10\}"):
        Samples({"y": torch.zeros(3)}, source=Ten())
