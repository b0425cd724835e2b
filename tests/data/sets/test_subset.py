"""Parts of sources keep rows, labels and groups together."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data import Source
from potluck.data.sets.subset import some_groups, some_rows

ROWS = np.arange(60)


def source(values=False, **changed):
    columns = {"groups": ROWS % 6, "groups_test": ROWS[:12] % 6, "fine": ROWS % 4, "fine_test": ROWS[:12] % 4}
    y = ROWS / 2 if values else ROWS % 3
    return Source("rows", ROWS[:, None], y, ROWS[:12, None], y[:12], values=values, **{**columns, **changed})


def test_some_rows_are_of_every_class_with_all_that_belongs_to_them():
    found = some_rows(source(), 30, 6, seed=1)
    assert np.bincount(found.y).tolist() == [10, 10, 10]
    assert np.bincount(found.y_test).tolist() == [2, 2, 2]
    assert found.y.tolist() == (found.x[:, 0] % 3).tolist()
    assert found.fine is not None
    assert found.groups is not None
    assert found.fine.tolist() == (found.x[:, 0] % 4).tolist()
    assert found.groups.tolist() == (found.x[:, 0] % 6).tolist()
    assert not np.array_equal(found.x, some_rows(source(), 30, 6, seed=2).x)


def test_rows_with_values_are_drawn_whatever_theirs():
    found = some_rows(source(values=True), 7, None, seed=0)
    assert len(found.y) == 7
    assert len(found.y_test) == 12
    assert found.y.tolist() == (found.x[:, 0] / 2).tolist()


def test_all_rows_stay_as_they_are():
    assert np.array_equal(some_rows(source(), None, 12, seed=0).x, ROWS[:, None])


@pytest.mark.parametrize(("train", "wrong"), [(61, "train=61; rows has 60 such rows"), (0, "train=0")])
def test_no_more_rows_than_there_are(train, wrong):
    with pytest.raises(DataError, match=wrong):
        some_rows(source(), train, None, seed=0)


def test_some_groups_are_whole_and_tested_on_their_own_rows():
    found = some_groups(source(), 2, 1, 0, "writers")
    assert found.groups is not None
    assert found.groups_test is not None
    drawn = set(found.groups.tolist())
    assert len(drawn) == 2
    assert set(found.groups_test.tolist()) == drawn
    assert len(found.x) == 20
    assert len({tuple(some_groups(source(), 2, 1, seed, "writers").groups) for seed in range(8)}) > 2


def test_groups_that_are_small_or_have_no_test_row_are_left_out():
    small = source(groups=np.where(ROWS < 3, 5, ROWS % 5), groups_test=np.full(12, 5))
    found = some_groups(small, None, 3, 0, "writers")
    assert found.groups is not None
    assert set(found.groups.tolist()) == {5}
    with pytest.raises(DataError, match="writers=1; rows has 0 with at least 4 training rows"):
        some_groups(small, 1, 4, 0, "writers")


def test_test_rows_of_labels_that_nobody_learns_are_left_out():
    y, y_test = np.where(ROWS % 6 == 0, 0, 1), ROWS[:12] // 6
    source = Source("rows", ROWS[:, None], y, ROWS[:12, None], y_test, groups=ROWS % 6, groups_test=ROWS[:12] % 6)
    for seed in range(4):
        found = some_groups(source, 1, 1, seed, "writers")
        assert set(found.y.tolist()) == set(found.y_test.tolist())
        assert len(found.y_test) == 1
