"""A metric, for people."""

from __future__ import annotations

from potluck.report.metric import Metric, metric_named, number


def test_shares_are_in_percent_and_others_are_not():
    assert metric_named("accuracy").spread([0.5, 0.6], "+") == "+55.0 ± 7.1"
    assert metric_named("loss").spread([0.5]) == "0.5"
    assert metric_named("accuracy").spread([]) == "–"
    assert (metric_named("macro_f1").heading, metric_named("rmse").heading) == ("macro F1 %", "RMSE")


def test_which_way_is_better():
    assert metric_named("accuracy").better(0.6, 0.5)
    assert metric_named("loss").better(0.5, 0.6)
    assert Metric("x").gain(3, 2) == 1
    assert metric_named("rmse").gain(3, 2) == -1


def test_a_mean_for_people():
    assert (number([1, 2]), number([1234.0], 0), number([])) == ("1.5", "1,234", "–")
