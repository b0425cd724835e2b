"""A source checks what it is given, once, when it is made."""

import numpy as np
import pandas as pd
import pytest

from potluck.core.errors import DataError
from potluck.data.source import Source, held_out

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])


def source(**changed):
    columns = {"x": X, "y": Y, "x_test": X[:3], "y_test": Y[:3]} | changed
    return Source("mine", **columns)


def test_a_source_knows_its_input_shape_and_labels():
    made = source(y=["b", "a", "c", "a", "a", "a"], y_test=["a", "a", "b"])
    assert made.shape == (2,)
    assert made.labels == ("a", "b", "c")


def test_lists_and_bytes_of_labels_become_arrays_of_one_kind():
    made = source(x=X.tolist(), y=Y.astype(np.uint8), fine=list(range(6)), fine_test=[0, 1, 2], groups=["p"] * 6)
    assert isinstance(made.x, np.ndarray)
    assert made.y.dtype == np.int64
    assert made.fine is not None
    assert made.fine.tolist() == [0, 1, 2, 3, 4, 5]
    assert made.groups is not None
    assert made.groups.tolist() == ["p"] * 6


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": X[:4]}, "different lengths.*'x': 4, 'y': 6"),
        ({"fine": [1, 2]}, "'fine': 2"),
        ({"groups": [1, 2]}, "'groups': 2"),
        ({"fine_test": [1, 2]}, "'fine_test': 2"),
        ({"y_test": [0, 1]}, "'y_test': 2"),
        ({"x": X[:0], "y": Y[:0]}, "no samples"),
        ({"x_test": X[:0], "y_test": Y[:0]}, "no samples"),
        ({"x": [["red"]] * 6}, "expected numbers"),
        ({"y": [0.5] * 6}, "mine: y holds float64"),
        ({"x": X[:, 0]}, r"shape \(6,\); expected \(rows, features"),
        ({"x_test": X[:3, :1]}, "shape"),
        ({"x": X.astype(np.uint8)}, "x is uint8 and x_test float64; expected one scale"),
        ({"y_test": [0, 1, 7]}, r"labels that no training row has: \[7\]"),
    ],
)
def test_what_cannot_be_used_is_refused(changed, message):
    with pytest.raises(DataError, match=message):
        source(**changed)


def test_held_out_rows_keep_their_labels_subclasses_and_groups():
    x = np.arange(40.0).reshape(40, 1)
    fine = np.arange(40) % 4
    made = held_out("mine", x, fine // 2, 0.25, 0, fine=fine, groups=np.arange(40))
    assert made.groups is not None
    assert made.fine is not None
    assert made.fine_test is not None
    assert len(made.x_test) == 10
    assert sorted([*made.x[:, 0], *made.x_test[:, 0]]) == x[:, 0].tolist()
    assert made.groups.tolist() == made.x[:, 0].tolist()
    assert (made.fine == made.x[:, 0] % 4).all()
    assert (made.fine_test == made.x_test[:, 0] % 4).all()
    assert (made.y == made.fine // 2).all()
    assert (made.y_test == made.fine_test // 2).all()


@pytest.mark.parametrize("share", [0, 1, -0.5, 2, float("nan")])
def test_a_test_share_lies_between_0_and_1(share):
    with pytest.raises(DataError, match="test_share="):
        held_out("mine", X, Y, share, 0)


def test_a_test_share_that_leaves_a_class_empty_is_refused():
    with pytest.raises(DataError, match="mine: the test set would be 5 of 6 rows; expected 1 to 3"):
        held_out("mine", X, Y, 0.9, 0)


def test_inputs_may_be_a_frame():
    frame = pd.DataFrame({"age": np.arange(8.0), "town": ["a", "b"] * 4})
    source = held_out("mine", frame, np.array([0, 1] * 4), 0.25, 0)
    assert (source.shape, len(source.x), len(source.x_test)) == ((2,), 6, 2)
    assert sorted([*source.x["age"], *source.x_test["age"]]) == list(range(8))
    with pytest.raises(DataError, match="x and x_test have other columns"):
        Source("mine", frame, np.array([0, 1] * 4), frame.iloc[:2][["town", "age"]], np.array([0, 1]))


def test_values_need_not_occur_twice_and_have_no_labels():
    made = source(y=Y / 4, y_test=[7.5, 8, 9], values=True)
    assert made.labels == ()
    assert made.y_test.tolist() == [7.5, 8.0, 9.0]
    split_off = held_out("mine", X, np.arange(6), 0.5, 0, values=True)
    assert sorted([*split_off.y, *split_off.y_test]) == [0, 1, 2, 3, 4, 5]


def test_test_rows_have_groups_too():
    made = held_out("mine", np.arange(8)[:, None], np.zeros(8, int), 0.25, 0, groups=np.arange(8) * 10)
    assert made.groups_test is not None
    assert made.groups_test.tolist() == (made.x_test[:, 0] * 10).tolist()
    with pytest.raises(DataError, match="'groups_test': 1"):
        source(groups_test=[1])
