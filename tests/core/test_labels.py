from __future__ import annotations

import numpy as np
import pytest
import torch

from potluck import DataError
from potluck.core.labels import UNLABELLED, decode, encode, label_space, union


def test_a_label_space_is_sorted_and_holds_each_label_once():
    assert label_space(["dog", "cat", "dog"], "p") == ("cat", "dog")
    assert label_space([10, 2, 10], "p") == (2, 10)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([2, 0, 2]), (0, 2)),
        (np.array([1.0, 0.0], dtype=np.float32), (0, 1)),
        (np.array([True, False]), (0, 1)),
        (np.array(["b", "a"]), ("a", "b")),
        (np.array(["b", "a"], dtype=object), ("a", "b")),
        (range(3), (0, 1, 2)),
        ((), ()),
    ],
    ids=["integers", "whole floats", "booleans", "strings", "objects", "range", "none"],
)
def test_labels_become_plain_strings_and_integers(values, expected):
    found = label_space(values, "p")
    assert found == expected
    assert [type(label) for label in found] == [type(label) for label in expected]


@pytest.mark.parametrize(("value", "kind"), [(1.5, "float"), (None, "NoneType"), (b"a", "bytes"), ((1, 2), "tuple")])
def test_anything_else_is_no_label(value, kind):
    with pytest.raises(DataError, match=rf"clinic: label .* is a {kind}; expected strings or integers"):
        label_space([value], "clinic")


@pytest.mark.parametrize("labels", [("a", "b", "c"), (0, 1, 7), (-3, 5)])
def test_encoding_and_decoding_undo_each_other(labels):
    y = np.array(labels)[[1, 0, 1, -1]]
    codes = encode(y, labels, "p")
    assert codes.dtype == torch.int64
    assert codes.tolist() == [1, 0, 1, len(labels) - 1]
    assert decode(codes, labels).tolist() == y.tolist()


def test_positions_are_those_in_the_label_space_not_in_the_data():
    assert encode(np.array([7, 5]), (3, 5, 7), "p").tolist() == [2, 1]


def test_a_whole_float_or_a_boolean_means_the_integer():
    assert encode(np.array([1.0, 0.0]), (0, 1), "p").tolist() == [1, 0]
    assert encode(np.array([True, False]), (0, 1), "p").tolist() == [1, 0]


def test_a_label_outside_the_space_is_an_error_that_names_it():
    with pytest.raises(DataError, match=r"clinic: .*label 'emu', which is not in its label space \['cat', 'dog'\]"):
        encode(np.array(["cat", "emu"]), ("cat", "dog"), "clinic")


def test_a_label_outside_the_space_is_no_label_where_that_is_allowed():
    assert encode(np.array([4, 9, 4]), (3, 4), "p", strict=False).tolist() == [1, UNLABELLED, 1]


def test_a_string_of_digits_is_not_the_integer():
    assert encode(np.array(["1", "2"]), (1, 2), "p", strict=False).tolist() == [UNLABELLED, UNLABELLED]


def test_the_union_holds_every_label_once():
    assert union([(2, 3), ("a",), (1, 2), ()]) == (1, 2, 3, "a")


def test_text_and_integers_do_not_mix():
    with pytest.raises(DataError, match=r"clinic: labels .* mix text and integers"):
        label_space([1, "a"], "clinic")


def test_no_label_cannot_be_decoded():
    with pytest.raises(DataError, match="label"):
        decode(torch.tensor([0, UNLABELLED]), ("a", "b"))


def test_a_missing_label_among_strings_is_an_error_in_plain_words():
    with pytest.raises(DataError, match="clinic: label None is a NoneType"):
        encode(np.array(["cat", None], dtype=object), ("cat",), "clinic")
