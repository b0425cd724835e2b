"""Which figures a report has follows from what there is to show."""

from __future__ import annotations

import dataclasses

from potluck.report.figure_set import figures_of
from tests.report.histories import four_methods, standings, trial


def names(found):
    return [figure.name for figure in figures_of(found, found.significance())]


def test_four_methods_over_two_rounds_have_all_but_what_was_not_measured():
    assert names(four_methods()) == [
        "curve-rounds", "curve-bytes", "curve-seconds", "cost", "gain-cofed", "gain-fedavg", "gain-fd", "ranks", "data",
    ]  # fmt: skip


def test_one_run_of_one_round_has_no_curve_and_no_comparison():
    assert names(standings(trial("CoFED", 0, {"a": 0.9, "b": 0.5}))) == ["data"]


def test_what_was_crossed_and_what_travelled_is_drawn():
    counts = {"votes": {"answers": 4, "bytes_up": 400, "replies": 4, "bytes_down": 800}}
    run = dataclasses.replace(trial("CoFED", 0, {"a": 0.9}), exchanges=counts, cross={"a": {"a": {"accuracy": 0.9}}})
    assert names(standings(run)) == ["data", "traffic", "cross-cofed"]


def test_captions_count_who_gains():
    found = four_methods()
    told = {figure.name: figure.caption for figure in figures_of(found, found.significance())}
    assert told["gain-cofed"].startswith("1 of 2 participants are better off than alone")
