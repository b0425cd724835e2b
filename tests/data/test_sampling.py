"""Choosing rows: labels as they come, shuffled classes, rows set aside."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck.core.errors import DataError
from potluck.data.sampling import as_labels, as_targets, as_values, at_least, draws, rows_of, same_length, set_aside


def test_draws_depend_on_seed_and_purpose_alone():
    first = draws(1, "iid").random(4).tolist()
    assert draws(1, "iid").random(4).tolist() == first
    assert draws(2, "iid").random(4).tolist() != first
    assert draws(1, "dirichlet").random(4).tolist() != first


@pytest.mark.parametrize("value", [0, -3, 1.5, "two", True, None])
def test_at_least_refuses_what_is_not_a_whole_number_from_there_up(value):
    with pytest.raises(DataError, match=r"participants=.*whole number from 1 up"):
        at_least(1, participants=value)


def test_at_least_takes_numpy_integers():
    at_least(2, classes=np.int32(2))


@pytest.mark.parametrize(
    ("given_labels", "expected"),
    [
        ([2, 0, 1], [2, 0, 1]),
        (np.array([3, 255], dtype=np.uint8), [3, 255]),
        (np.array([1.0, 2.0]), [1, 2]),
        ([True, False], [1, 0]),
        (np.array([[4], [5]]), [4, 5]),
    ],
)
def test_whole_numbers_become_int64(given_labels, expected):
    labels = as_labels(given_labels, "y")
    assert labels.dtype == np.int64
    assert labels.tolist() == expected


@pytest.mark.parametrize("given_labels", [["cat", "dog"], np.array(["cat", "dog"], dtype=object)])
def test_text_stays_text(given_labels):
    labels = as_labels(given_labels, "y")
    assert labels.dtype.kind == "U"
    assert labels.tolist() == ["cat", "dog"]


@pytest.mark.parametrize(
    "bad", [[0.5, 1.0], [np.nan, 1.0], [np.inf], np.array(["cat", None]), np.array(["cat", np.nan], dtype=object), [1j]]
)
def test_other_labels_are_refused(bad):
    with pytest.raises(DataError, match=r"mine holds .* expected whole numbers or text"):
        as_labels(bad, "mine")


@pytest.mark.parametrize("bad", [[], 3, [[1, 2], [3, 4]]])
def test_labels_of_a_wrong_shape_are_refused(bad):
    with pytest.raises(DataError, match="has shape"):
        as_labels(bad, "y")


def test_columns_of_different_lengths_are_named():
    with pytest.raises(DataError, match="'x': 3, 'y': 2"):
        same_length(x=np.zeros(3), y=np.zeros(2))


def test_rows_of_each_class_are_all_there_in_random_order():
    y = np.array(["b", "a"] * 50)
    of_a, of_b = rows_of(y, draws(0))
    assert sorted(of_a) == list(range(1, 100, 2))
    assert sorted(of_b) == list(range(0, 100, 2))
    assert of_a.tolist() != sorted(of_a)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.data(), st.integers(0, 99))
def test_rows_set_aside_are_exact_in_proportion_and_leave_every_class_a_row(labels, data, seed):
    y = np.array(labels)
    classes, sizes = np.unique(y, return_counts=True)
    free = len(y) - len(classes)
    if free == 0:
        return
    count = data.draw(st.integers(1, free))
    taken, left = set_aside(y, count, draws(seed), "The test set")
    assert len(taken) == count
    assert sorted([*taken, *left]) == list(range(len(y)))
    assert set(y[left]) == set(classes)
    for label, size in zip(classes, sizes, strict=True):
        assert abs(np.count_nonzero(y[taken] == label) - (size - 1) * count / free) < 1 + 1e-9


@pytest.mark.parametrize("count", [0, -1, 4])
def test_too_many_or_no_rows_cannot_be_set_aside(count):
    with pytest.raises(DataError, match=rf"The test set would be {count} of 5 rows; expected 1 to 3"):
        set_aside(np.array([0, 0, 0, 1, 1]), count, draws(0), "The test set")


def test_targets_with_fractions_are_values_and_others_labels():
    assert as_targets([0.0, 2.0], "y").dtype == np.int64
    assert as_targets([0.5, 2.0], "y").tolist() == [0.5, 2.0]
    assert as_targets(["a"], "y").tolist() == ["a"]
    with pytest.raises(DataError, match=r"y holds float64 of shape \(2,\); expected a finite number for each"):
        as_targets([0.5, np.nan], "y")


@pytest.mark.parametrize("bad", [[], ["a"], [np.inf], [[1.0, 2.0]]])
def test_values_are_finite_numbers_one_for_each_row(bad):
    with pytest.raises(DataError, match="expected a finite number for each of at least one row"):
        as_values(bad, "y")
