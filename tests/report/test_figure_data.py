"""The rows behind the figures, worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest

from potluck.report import figure_data
from potluck.report.trials import Entry
from tests.report.histories import four_methods, standings, trial

COFED, LOCAL = Entry("CoFED"), Entry("Local")


def two():
    return standings(
        trial("CoFED", 0, {"a": 0.5, "b": 0.7}, {"a": 0.9, "b": 0.5}),
        trial("Local", 0, {"a": 0.4, "b": 0.4}, {"a": 0.7, "b": 0.6}, up=0, down=0),
        trial("CoFED", 1, {"a": 0.6, "b": 0.6}, {"a": 0.8, "b": 0.8}),
        trial("Local", 1, {"a": 0.5, "b": 0.5}, {"a": 0.6, "b": 0.6}, up=0, down=0),
    )


def test_curves_are_means_over_seeds_with_what_was_sent_until_then():
    rows = [row for row in figure_data.curves(two()) if row["method"] == "CoFED"]
    assert [row["mean"] for row in rows] == pytest.approx([60, 75])
    assert [row["high"] - row["mean"] for row in rows] == pytest.approx([0, 7.0711], abs=1e-4)
    assert [(row["round"], row["bytes"], row["seconds"], row["seeds"]) for row in rows] == [
        (1, 60, 2.0, 2),
        (2, 120, 4.0, 2),
    ]


def test_what_is_beaten_in_bytes_and_accuracy_is_not_efficient():
    found = standings(
        trial("CoFED", 0, {"a": 0.9}, up=10),
        trial("FedAvg", 0, {"a": 0.8}, up=100),
        trial("FD", 0, {"a": 0.95}, up=100),
        trial("Local", 0, {"a": 0.7}, up=0, down=0),
    )
    told = {row["method"]: row["efficient"] for row in figure_data.costs(found)}
    assert told == {"Local": True, "CoFED": True, "FD": True, "FedAvg": False}


def test_where_less_is_better_the_lower_one_is_efficient():
    found = standings(
        trial("CoFED", 0, {"a": 0.2}, metric="loss"), trial("Local", 0, {"a": 0.1}, metric="loss", up=0, down=0),
        metric="loss",
    )  # fmt: skip
    assert {row["method"]: row["efficient"] for row in figure_data.costs(found)} == {"Local": True, "CoFED": False}


def test_gains_are_sorted_and_say_who_it_is():
    rows = figure_data.gains(two(), COFED)
    assert [(row["participant"], row["model"], row["samples"], row["side"]) for row in rows] == [
        ("a", "MLP", 10, "gains"),
        ("b", "MLP", 10, "gains"),
    ]
    assert [row["gain"] for row in rows] == pytest.approx([20, 5])
    assert figure_data.gains(two(), LOCAL) == []


def test_holdings_are_those_of_the_first_run():
    assert figure_data.holdings(two())[:2] == [
        {"participant": "a", "label": "0", "samples": 4},
        {"participant": "a", "label": "1", "samples": 6},
    ]


def test_traffic_is_of_one_participant_in_one_round():
    """Two participants, two rounds: 400 bytes in all are 100 of each in each round."""
    counts = {"votes": {"answers": 4, "bytes_up": 400, "replies": 4, "bytes_down": 800}}
    found = two()
    trials = [dataclasses.replace(run, exchanges=counts) if run.entry == COFED else run for run in found.trials]
    rows = figure_data.traffic(dataclasses.replace(found, trials=trials))
    assert [(row["method"], row["exchange"], row["direction"], row["bytes"]) for row in rows] == [
        ("CoFED", "votes", "sent", 100),
        ("CoFED", "votes", "received", 200),
    ]


def test_ranks_are_in_order():
    rows = figure_data.ranks(four_methods().significance())
    assert [row["method"] for row in rows] == ["CoFED", "FedAvg", "FD", "Local"]
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert figure_data.ranks(two().significance()) == []


def test_crossed_are_means_over_seeds_without_what_was_not_measured():
    found = two()
    cross = [{"a": {"a": {"accuracy": 0.5}, "b": {"accuracy": None}}}, {"a": {"a": {"accuracy": 0.7}}}]
    trials = [dataclasses.replace(run, cross=cross[run.seed]) if run.entry == COFED else run for run in found.trials]
    rows = figure_data.crossed(dataclasses.replace(found, trials=trials), COFED)
    assert rows == [{"model of": "a", "data of": "a", "value": pytest.approx(60)}]
