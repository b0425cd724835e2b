"""A partition cannot say that two participants hold one row."""

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data.partition import Partition, with_all_labels, with_own_labels

ROWS = np.array([0, 2])


def test_a_row_held_twice_is_refused():
    with pytest.raises(DataError, match="Row 2 belongs to two participants"):
        Partition([ROWS, np.array([1, 2])], [(0,), (0,)])


@pytest.mark.parametrize(("shares", "labels"), [([ROWS], []), ([], []), ([], [(0,)])])
def test_shares_and_label_spaces_go_together(shares, labels):
    with pytest.raises(DataError, match="expected one of each for every participant"):
        Partition(shares, labels)


def test_all_labels_are_everyones():
    made = with_all_labels([np.array([2, 0]), np.array([1])], np.array(["b", "a", "b"]))
    assert [share.tolist() for share in made.indices] == [[0, 2], [1]]
    assert made.labels == [("a", "b"), ("a", "b")]


def test_own_labels_are_sorted_and_plain():
    made = with_own_labels([[np.array([3]), np.array([1])]], [np.array([7, 5])])
    assert made.indices[0].tolist() == [1, 3]
    assert made.labels == [(5, 7)]
    assert all(type(label) is int for label in made.labels[0])
