"""Rounds over Flower: what is compared with what, and the goals."""

from __future__ import annotations

from benchmarks import flower_rounds


def test_goals_of_rounds_over_flower():
    empty, minute, large = flower_rounds.WORKLOADS
    assert [figure.met for figure in empty.figures([6.0, 8.0], [7.0, 9.0])] == [None, None, True]
    assert [figure.met for figure in empty.figures([6.0], [7.6])] == [None, None, False]
    assert [figure.met for figure in minute.figures([6.0], [72.1])] == [None, False]
    assert [figure.met for figure in minute.figures([6.0], [71.9])] == [None, True]
    assert [figure.met for figure in large.figures([6.0], [30.0])] == [None, None]
