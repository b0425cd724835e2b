"""Public sets: set aside, borrowed, or made of valid values."""

import numpy as np
import pandas as pd
import pytest

from potluck.core.errors import DataError
from potluck.data import arrays, from_source, generated, split_public, valid_values

X, Y = np.arange(100.0).reshape(50, 2), np.arange(50) % 5


@pytest.mark.parametrize("amount", [0.2, 10, np.int64(10)])
def test_a_share_or_a_number_of_rows_is_set_aside_by_class(amount):
    made = split_public(X, Y, amount, seed=1)
    assert np.bincount(made.y).tolist() == [2] * 5
    assert np.array_equal(Y[(made.x[:, 0] / 2).astype(int)], made.y)
    assert sorted([*made.kept.tolist(), *(made.x[:, 0] / 2).astype(int)]) == list(range(50))


def test_rows_set_aside_depend_on_the_seed():
    assert np.array_equal(split_public(X, Y, 10, seed=1).kept, split_public(X, Y, 10, seed=1).kept)
    assert not np.array_equal(split_public(X, Y, 10, seed=1).kept, split_public(X, Y, 10, seed=2).kept)


@pytest.mark.parametrize("amount", [0.0, 1.0, -0.5, 2.5, float("nan")])
def test_a_share_lies_between_0_and_1(amount):
    with pytest.raises(DataError, match="amount="):
        split_public(X, Y, amount)


@pytest.mark.parametrize("amount", [0, -1, 46, 0.001])
def test_the_public_set_has_rows_and_leaves_every_class_one(amount):
    with pytest.raises(DataError, match=r"The public set would be .* of 50 rows; expected 1 to 45"):
        split_public(X, Y, amount)


def test_x_and_y_speak_of_the_same_rows():
    with pytest.raises(DataError, match="'x': 3, 'y': 50"):
        split_public(X[:3], Y, 1)


def test_another_sources_inputs_can_be_public():
    source = generated(samples=80)
    assert from_source(source, like=(20,)) is source.x
    some = from_source(source, count=7, seed=1)
    assert some.shape == (7, 20)
    assert len({row.tobytes() for row in some} & {row.tobytes() for row in source.x}) == 7
    assert np.array_equal(some, from_source(source, count=7, seed=1))
    assert not np.array_equal(some, from_source(source, count=7, seed=2))


def test_inputs_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"arrays has inputs of shape \(2,\); the participants' have \(1, 8, 8\)"):
        from_source(arrays(X, Y), like=(1, 8, 8))


def test_no_more_inputs_than_there_are():
    with pytest.raises(DataError, match="count=99 public inputs; arrays has 38"):
        from_source(arrays(X, Y), count=99)
    with pytest.raises(DataError, match="count=0"):
        from_source(arrays(X, Y), count=0)


def table(rows=200):
    rng = np.random.default_rng(0)
    measure = rng.normal(size=rows)
    age = rng.choice([17, 40, 90], size=rows)
    many = rng.permutation(np.arange(rows) * 3)
    scaled = np.where(rng.random(rows) < 0.1, 2.37, -0.41)
    one_hot = np.eye(3)[rng.integers(3, size=rows)]
    return np.column_stack([measure, age, many, scaled, one_hot]).astype(np.float32)


def test_each_value_is_valid_for_its_column():
    x = table()
    made = valid_values(x, 3000, groups=[(4, 5, 6)])
    assert made.shape == (3000, 7)
    assert made.dtype == x.dtype
    assert x[:, 0].min() <= made[:, 0].min() < made[:, 0].max() <= x[:, 0].max()
    assert len(np.unique(made[:, 0])) > 2000
    for column in (1, 2, 3):
        assert set(made[:, column]) <= set(x[:, column])
    assert set(made[:, 3]) == set(x[:, 3])
    assert (made[:, 4:].sum(axis=1) == 1).all()


def test_values_that_occur_are_equally_likely():
    made = valid_values(table(), 3000)
    assert abs((made[:, 3] > 0).mean() - 0.5) < 0.05


def test_columns_are_independent_of_one_another():
    x = np.column_stack([np.arange(100) % 2, np.arange(100) % 2])
    assert len(np.unique(valid_values(x, 100), axis=0)) == 4
    assert len(np.unique(valid_values(x, 100, groups=[[0, 1]]), axis=0)) == 2


def test_made_values_depend_on_the_seed():
    assert np.array_equal(valid_values(table(), 5, seed=1), valid_values(table(), 5, seed=1))
    assert not np.array_equal(valid_values(table(), 5, seed=1), valid_values(table(), 5, seed=2))


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((0, 3)), np.zeros((2, 1, 1)), [["a"]], [[np.nan]]])
def test_valid_values_need_a_table_of_numbers(bad):
    with pytest.raises(DataError, match="expected a table of finite numbers"):
        valid_values(bad, 3)


@pytest.mark.parametrize("groups", [[(0, 1), (1, 2)], [(0, 7)], [(-1, 0)]])
def test_groups_name_columns_once(groups):
    with pytest.raises(DataError, match="groups="):
        valid_values(table(), 3, groups=groups)


def test_some_rows_must_be_asked_for():
    with pytest.raises(DataError, match="count=0"):
        valid_values(table(), 0)


def test_rows_of_a_frame_stay_in_a_frame():
    frame = pd.DataFrame({"a": np.arange(10.0), "b": [0.0, 1.0] * 5})
    aside = split_public(frame, [0, 1] * 5, 4)
    assert list(aside.x.columns) == ["a", "b"]
    assert len(aside.x) == 4
    made = valid_values(frame, 20)
    assert (list(made.columns), len(made)) == (["a", "b"], 20)
    assert set(made["b"]) == {0.0, 1.0}


def test_rows_with_values_are_drawn_whatever_their_values():
    """Each value occurs once: by class no row could be given away."""
    made = split_public(np.arange(20)[:, None], np.arange(20), 8, values=True)
    assert sorted([*made.x[:, 0].tolist(), *made.kept.tolist()]) == list(range(20))
    assert made.y.dtype == np.float64
    with pytest.raises(DataError):
        split_public(np.arange(20)[:, None], np.arange(20), 8)
