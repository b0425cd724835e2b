"""Means and deviations of what was compared."""

from __future__ import annotations

import pytest

from potluck.report.comparison import Compared, overall, percent, spread

ONE = Compared("one", "tree", "ab", alone=(0.5, 0.7), together=(0.75, 0.75))
TWO = Compared("two", "net", "bc", alone=(0.7, 0.9), together=(0.85, 0.95))


def test_gain_is_taken_seed_by_seed():
    assert ONE.gain == pytest.approx((0.25, 0.05))


def test_the_mean_over_participants_keeps_the_seeds():
    mean = overall([ONE, TWO])
    assert mean.alone == pytest.approx((0.6, 0.8))
    assert mean.together == pytest.approx((0.8, 0.85))


def test_deviation_is_the_samples():
    assert spread((1.0, 2.0, 3.0)) == (2.0, 1.0)
    assert spread((0.4,)) == (0.4, 0.0)


def test_percent():
    assert percent((0.5, 0.7)) == "60.0 ± 14.1"
    assert percent((0.512,), "+") == "+51.2"
    assert percent((-0.512,), "+") == "-51.2"
