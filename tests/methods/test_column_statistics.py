"""The arithmetic of columns: by hand, and against numpy on everything together."""

from __future__ import annotations

import math

import numpy as np
import pandas
import pytest

from potluck.methods.column_statistics import (
    Moments,
    added,
    binned,
    categories_in,
    column,
    column_names,
    frequent,
    numbers_in,
    quantile,
    with_neighbours,
)


def test_two_halves_are_the_whole_by_hand():
    """1, 3 and 8: means 2 and 8, together 4; squares 2 + 0 + 36·2·1/3 = 26."""
    one, other = Moments.of(np.array([1.0, 3.0])), Moments.of(np.array([8.0, math.nan]))
    assert one == (2, 2.0, 2.0, 1.0, 3.0)
    assert other == (1, 8.0, 0.0, 8.0, 8.0)
    assert Moments.together([one, other]) == pytest.approx((3, 4.0, 26.0, 1.0, 8.0))


def test_many_parts_are_the_whole():
    numbers = np.random.default_rng(0).normal(1e6, 3.0, 500)
    found = Moments.together(Moments.of(part) for part in np.array_split(numbers, 7))
    assert found.mean == pytest.approx(numbers.mean(), rel=1e-14)
    assert found.squares / found.known == pytest.approx(numbers.var(), rel=1e-9)
    assert (found.low, found.high) == (numbers.min(), numbers.max())


def test_nothing_counts_nowhere():
    nothing = Moments.of(np.array([math.nan, math.inf]))
    assert nothing == (0, 0.0, 0.0, 0.0, 0.0) == Moments.together([nothing])
    some = Moments.of(np.array([2.0]))
    assert Moments.together([nothing, some]) == some


def test_bins_and_what_is_outside():
    assert binned(np.array([-5.0, 0.0, 0.9, 1.0, 2.0, 99.0, math.nan]), 0.0, 2.0, 2).tolist() == [3, 3]
    assert binned(np.array([3.0, 3.0]), 3.0, 3.0, 4).tolist() == [2, 0, 0, 0]


def test_quantiles_lie_on_lines_through_the_bins():
    assert quantile([2, 2], 0.0, 4.0, 0.25) == pytest.approx(1.0)
    assert quantile([2, 2], 0.0, 4.0, 0.75) == pytest.approx(3.0)
    assert quantile([0, 4, 0], 0.0, 3.0, 0.5) == pytest.approx(1.5)
    assert quantile([4, 0], 0.0, 4.0, 1.0) == pytest.approx(2.0)
    assert quantile([0, 0], 0.0, 4.0, 0.5) is None


def test_bins_of_few_values_go_to_the_middle_of_their_neighbours_and_nothing_is_lost():
    """1 + 2 + 1 + 1 have their middle in the second bin, 3 + 2 in the first of them; 4 alone goes with those before."""
    assert with_neighbours(np.array([1, 2, 1, 1, 7, 3, 2, 0, 4]), 5).tolist() == [0, 5, 0, 0, 7, 0, 9, 0, 0]
    assert with_neighbours(np.array([0, 5, 0, 6]), 5).tolist() == [0, 5, 0, 6]
    assert with_neighbours(np.array([1, 2, 1]), 5).tolist() == [0, 0, 0], "too few in all"
    assert with_neighbours(np.array([1, 2, 1]), 1).tolist() == [1, 2, 1]


def test_quantiles_stay_where_they_were_when_few_values_are_hidden():
    values = np.random.default_rng(0).normal(50, 10, 60)
    hidden = with_neighbours(binned(values, 20.0, 80.0, 32), 5)
    for share in (0.25, 0.5, 0.75):
        assert quantile(hidden.tolist(), 20.0, 80.0, share) == pytest.approx(np.quantile(values, share), abs=2.5)


def test_rare_values_are_left_out():
    assert frequent(["b", "a", None, "b", "c"], 1) == {"a": 1, "b": 2, "c": 1}
    assert frequent(["b", "a", None, "b", "c"], 2) == {"b": 2}
    assert added([{"b": 2}, {"a": 1, "b": 1}]) == {"a": 1, "b": 3}


def test_numbers_and_texts():
    assert numbers_in(["1", None, 2.5]).tolist()[::2] == [1.0, 2.5]
    assert numbers_in(pandas.Series([1, None, 3], dtype="Int64")).tolist()[::2] == [1.0, 3.0]
    assert numbers_in(["1", "many"]) is None
    assert categories_in([1.0, 2, True, "x", None, math.nan, 0.5]) == ["1", "2", "1", "x", None, None, "0.5"]


def test_columns_of_frames_and_arrays():
    frame, array = pandas.DataFrame({"a": [1, 2], 3: [4, 5]}), np.arange(12).reshape(2, 2, 3)
    assert column_names(frame) == ["a", "3"]
    assert list(column(frame, "3")) == [4, 5]
    assert column_names(array) == ["0", "1", "2", "3", "4", "5"]
    assert column(array, "4").tolist() == [4, 10]
