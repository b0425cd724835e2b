"""Windows of samples that move on from round to round."""

from __future__ import annotations

import pytest

from potluck import SettingsError, Window


def test_each_round_begins_a_step_further_on():
    window = Window(size=4, step=3)
    assert [window.rows(number, 20).tolist() for number in (1, 2, 3)] == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]


def test_joining_sees_what_the_first_round_has():
    window = Window(size=4, step=3)
    assert window.rows(0, 20).tolist() == window.rows(1, 20).tolist()


def test_where_the_data_end_it_stays_with_the_last_ones():
    window = Window(size=4, step=3)
    assert window.rows(3, 9).tolist() == window.rows(99, 9).tolist() == [5, 6, 7, 8]
    assert window.rows(5, 3).tolist() == [0, 1, 2], "fewer than it is wide"


@pytest.mark.parametrize("wrong", [{"size": 0, "step": 1}, {"size": 5, "step": 0}, {"size": 5}])
def test_numbers_are_above_zero(wrong):
    with pytest.raises(SettingsError):
        Window(**wrong)
