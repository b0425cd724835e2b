"""Adult's rows, as numbers for a network or as a DataFrame."""

from __future__ import annotations

import numpy as np
import pytest

from potluck.core.errors import DataError
from potluck.data import adult
from tests.data.sets.published_files import adult_files, put


@pytest.fixture(autouse=True)
def _files(sets):
    put(sets / "adult", adult_files())


def test_numbers_then_a_column_for_each_choice():
    found = adult()
    assert found.x.dtype == np.float32
    assert found.x.shape == (6, 5 + 2 + 7), "five numbers, two kinds of work ('?' is one), one of each other choice"
    assert found.x[:, 0].tolist() == [30, 31, 32, 33, 34, 35]
    assert found.x[:, 5].tolist() == [0, 0, 1, 0, 0, 0], "'?' comes first among the kinds of work"
    assert found.x[:, 5:7].sum(axis=1).tolist() == [1] * 6
    assert found.y.tolist() == ["<=50K", ">50K"] * 3
    assert found.y_test.tolist() == ["<=50K", ">50K", "<=50K"], "without the dots"


def test_a_frame_keeps_all_columns():
    found = adult(encoded=False)
    assert list(found.x.columns)[:3] == ["age", "workclass", "fnlwgt"]
    assert found.x["age"].dtype == np.int64
    assert found.x["workclass"].tolist()[2] == "?"
    assert len(adult(encoded=False, train=4).x) == 4


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"1,2,3\n", "adult.data has no row of 15 cells"),
        (adult_files()["adult.data"].replace(b"50K", b"60K"), "income"),
    ],
)
def test_other_files_are_told(sets, content, wrong):
    put(sets / "adult", {"adult.data": content})
    with pytest.raises(DataError, match=wrong):
        adult()
