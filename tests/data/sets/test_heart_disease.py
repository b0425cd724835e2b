"""Heart Disease as FLamby prepares it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from potluck.core.errors import DataError
from potluck.data import heart_disease
from tests.data.sets.published_files import heart_files, put


def test_hospitals_patients_and_columns(sets):
    put(sets / "heart_disease", heart_files())
    found = heart_disease()
    assert found.x.shape[1] == 8 + 2 + 2, "numbers, and all kinds of pain and electrocardiograms here but the first"
    assert found.groups is not None
    assert found.groups_test is not None
    for place, hospital in enumerate(("cleveland", "hungarian", "switzerland", "va")):
        own = np.concatenate([found.x[found.groups == hospital], found.x_test[found.groups_test == hospital]])
        assert sorted(own[:, 0].tolist()) == [50, 51, 52, 54, 55, 56, 58, 59, 60], "without those with a gap"
        assert set(own[:, 3].tolist()) == {place}
        ages = own[:, 0].astype(int) - 50
        assert np.array_equal(own[:, 8:10], np.stack([ages % 4 == 1, ages % 4 == 2], axis=1))
        assert np.array_equal(own[:, 10:], np.stack([ages % 3 == 1, ages % 3 == 2], axis=1))
    assert set(found.y.tolist()) == {0, 1}
    assert found.y.tolist() == ((found.x[:, 0] - 50) % 2).tolist()


def test_the_test_rows_are_those_that_flamby_holds_out(sets):
    put(sets / "heart-disease", heart_files(40))
    found = heart_disease()
    ages = np.array([50 + number for number in range(40) if number % 4 != 3])
    held_out = train_test_split(ages, test_size=1 - 0.66, train_size=0.66, random_state=43, stratify=(ages - 50) % 2)[1]
    assert found.groups_test is not None
    assert set(found.x_test[found.groups_test == "va"][:, 0].tolist()) == set(held_out.tolist())


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"1,2\n", "processed.va.data: expected rows of 14 cells"),
        (b"a" + b",1" * 13, "could not convert string to float"),
    ],
)
def test_other_files_are_told(sets, content, wrong):
    put(sets / "heart-disease", {**heart_files(), "processed.va.data": content})
    with pytest.raises(DataError, match=wrong):
        heart_disease()
