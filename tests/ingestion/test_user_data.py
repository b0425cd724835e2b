from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from torch.utils.data import TensorDataset

from potluck import Classification, DataError, MultiLabel, NextToken, Regression, Samples
from potluck.core.labels import UNLABELLED
from potluck.ingestion.user_data import read_inputs, read_labelled
from tests.ingestion.datasets import Rows, X, Y


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
    given = read_labelled(data, "p")
    x = given.inputs.x
    assert torch.equal(x, X.to(x.dtype))
    assert given.y.tolist() == [0, 1, 0]


def test_labels_stay_in_the_words_they_came_in():
    assert read_labelled((X, ["cat", "dog", "cat"]), "p").y.tolist() == ["cat", "dog", "cat"]


def test_a_dataset_may_have_strings_as_labels():
    assert read_labelled(Rows(X, ["cat", "dog", "cat"]), "p").y.tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize("data", [(X,), (X, Y, Y, Y), None, "data"])
def test_other_data_is_an_error_that_says_what_was_expected(data):
    with pytest.raises(DataError, match=r"clinic: data is an? .*; expected \(x, y\) or \(x, y, weight\)"):
        read_labelled(data, "clinic")


@pytest.mark.parametrize("y", [Y[:2], torch.tensor(1)], ids=["short", "scalar"])
def test_there_must_be_one_label_for_each_input(y):
    with pytest.raises(DataError, match=r"clinic: 3 inputs but labels of shape .*; expected one label for each"):
        read_labelled((X, y), "clinic")


def test_inputs_alone_have_no_targets():
    for data in (X, X.numpy(), (X, None), (pd.DataFrame({"a": [1]}), None)):
        assert read_labelled(data, "clinic").y is None
    samples = read_labelled((X, None), "clinic").encoded(Classification(("a", "b")), "clinic")
    assert samples.y.tolist() == [UNLABELLED] * 3


def test_several_targets_for_a_sample_are_brought_as_they_are():
    assert read_labelled((X, [[0, 1], [1, 0], [1, 1]]), "clinic").y.shape == (3, 2)
    assert read_labelled((X, [["a"], [], ["a", "b"]]), "clinic").y.tolist() == [["a"], [], ["a", "b"]]


def test_labels_that_are_not_finite_are_an_error():
    with pytest.raises(DataError, match="clinic: labels hold NaN or infinity"):
        read_labelled((X, [0.0, 1.0, float("nan")]), "clinic")


def test_an_empty_dataset_is_an_error():
    with pytest.raises(DataError, match="clinic: the Dataset is empty"):
        read_labelled(Rows(X[:0], []), "clinic")


def test_a_sample_may_have_a_weight():
    given = read_labelled((X, Y, [1, 0.5, 2]), "p")
    assert given.inputs.columns["weight"].tolist() == [1.0, 0.5, 2.0]
    assert read_labelled((X, Y), "p").inputs.columns.keys() == {"x"}


def test_several_inputs_are_columns_by_name_or_by_place():
    named = read_inputs({"ids": Y.reshape(3, 1), "mask": np.ones((3, 2), dtype=bool)}, "p")
    assert {name: tuple(column.shape) for name, column in named.columns.items()} == {"x.ids": (3, 1), "x.mask": (3, 2)}
    assert set(named.x) == {"ids", "mask"}
    first, second = read_inputs((X, Y), "p").x
    assert first.equal(X)
    assert second.equal(Y)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({}, "clinic: no inputs"),
        ({"a b": X}, "an input is named 'a b'; expected the name of a keyword argument"),
        ({"ids": [["a"]]}, "clinic, input 'ids': inputs of type"),
        ({"a": X, "b": X[:2]}, "must have one length"),
    ],
)
def test_what_is_wrong_with_one_of_several_inputs_is_told(x, message):
    with pytest.raises(DataError, match=message):
        read_inputs(x, "clinic")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_a_frame_may_be_named_as_the_labels_and_another_as_the_weights(frame):
    table = frame({"age": [30, 41, 52], "ill": ["yes", "no", "no"], "counts": [1.0, 2.0, 3.0]})
    given = read_labelled((table, "ill", "counts"), "p")
    assert list(given.inputs.x.columns) == ["age"]
    assert given.y.tolist() == ["yes", "no", "no"]
    assert given.inputs.columns["weight"].tolist() == [1.0, 2.0, 3.0]


def test_one_of_several_inputs_may_be_named_as_the_labels():
    given = read_labelled(({"ids": X, "label": Y}, "label"), "p")
    assert given.inputs.columns.keys() == {"x.ids"}
    assert given.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_several_columns_may_be_named_as_the_labels(frame):
    table = frame({"age": [30, 41, 52], "tired": [0, 1, 0], "ill": [1, 0, 0]})
    given = read_labelled((table, ["tired", "ill"]), "p")
    assert list(given.inputs.x.columns) == ["age"]
    for same in (given, read_labelled((table[["age"]], table[["tired", "ill"]]), "p")):
        assert same.columns == ("tired", "ill")
        task = same.fitted(MultiLabel(), "p")
        assert task.labels == ("ill", "tired")
        assert same.encoded(task, "p").y.tolist() == [[1, 0], [0, 1], [0, 0]]
    values = given.encoded(Regression().fitted(given.y, "p"), "p")
    assert values.y[:, 0].argmax() == 1, "values stay in the order of their columns"


def test_labels_that_are_called_as_columns_are_labels():
    table = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert read_labelled((table, ["a", "b"]), "p").y.tolist() == ["a", "b"]


def test_columns_that_nobody_named_say_nothing():
    given = read_labelled((X, pd.DataFrame([[0, 1], [1, 1], [0, 0]])), "p")
    assert given.columns == ()
    assert given.encoded(MultiLabel(("b", "c")), "p").y.tolist() == [[0, 1], [1, 1], [0, 0]]


def test_inputs_alone_may_be_a_dict_of_them():
    ids = torch.tensor([[3, 1, 2], [2, 2, 0]])
    given = read_labelled({"ids": ids, "mask": ids > 0}, "p")
    assert given.y is None
    assert given.encoded(NextToken(4, padding=0), "p").y.tolist() == [[1, 2, -1], [2, -1, -1]]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((pl.LazyFrame({"age": [1]}), [0]), r"clinic: inputs are a LazyFrame, .* expected its rows: `x.collect\(\)`"),
        ((pd.DataFrame({"age": [1]}), "agee"), "there is no column 'agee'. Did you mean 'age'"),
        ((X, "age"), r"'age' names a column, but the inputs are an array of shape \(3, 2\); expected a DataFrame"),
        (pd.DataFrame({"age": [1]}), "data is a DataFrame, and it does not say which of its columns holds the labels"),
    ],
)
def test_labels_that_are_not_there_are_told(data, message):
    with pytest.raises(DataError, match=message):
        read_labelled(data, "clinic")


def test_a_series_is_read_as_what_it_holds():
    for texts in (pd.Series(["a b", "c"]), ("a b", "c"), ["a b", "c"]):
        assert read_labelled((texts, pd.Series([0, 1])), "p").inputs.x.tolist() == ["a b", "c"]
    assert read_inputs(pd.Series([1.0, 2.0]), "p").x.tolist() == [1.0, 2.0]


def test_samples_are_taken_as_they_are():
    samples = Samples({"x": X, "y": Y})
    assert read_inputs(samples, "p").columns.keys() == {"x"}
