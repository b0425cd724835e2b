"""Charts hold the rows they were given, look alike, and can all be drawn."""

from __future__ import annotations

import json

import pytest
import vl_convert

from potluck.report import charts
from potluck.report.colours import SERIES

CURVE = [
    {"method": method, "round": n, "mean": 50.0 + n, "low": 49.0, "high": 60.0, "bytes": 1e6 * n, "seconds": 1.5 * n}
    for method in ("FD", "Local")
    for n in (1, 2)
]
COST = [
    {"method": "FD", "bytes": 2e6, "mean": 60.0, "deviation": 1.0, "efficient": True},
    {"method": "Local", "bytes": 0, "mean": 50.0, "deviation": 2.0, "efficient": True},
]
GAIN = [
    {"participant": f"p{n}", "model": "mlp", "samples": 1200, "gain": 2.0 - n, "deviation": 0.5, "side": "gains"}
    for n in range(3)
]
HEAT = [{"participant": "a", "label": "0", "samples": 3}, {"participant": "b", "label": "0", "samples": 5}]
TRAFFIC = [
    {"method": "FD", "exchange": "votes", "direction": "sent", "bytes": 10.0},
    {"method": "FD", "exchange": "votes", "direction": "received", "bytes": 0.0},
]
RANKS = [{"method": name, "rank": 1.0 + n, "place": n} for n, name in enumerate("abcd")]
PAIRS = [{"who": "ann", "alone": 50.0, "alone deviation": 1.0, "together": 60.0, "together deviation": 2.0}]

DRAWN = {
    "curves": lambda: charts.curves(CURVE, "round", "accuracy %", "round"),
    "by bytes": lambda: charts.curves(CURVE, "bytes", "accuracy %", "bytes"),
    "costs": lambda: charts.costs(COST, "accuracy %"),
    "gains": lambda: charts.gains(GAIN, "points"),
    "heat": lambda: charts.heat(HEAT, "label", "participant", "samples", "samples"),
    "traffic": lambda: charts.traffic(TRAFFIC),
    "ranks": lambda: charts.ranks(RANKS, [("a", "b"), ("c", "d")], 1.2),
    "ranks that all differ": lambda: charts.ranks(RANKS, [], 0.2),
    "pairs": lambda: charts.pairs(PAIRS, "alone", "together", "accuracy", "a title", "a line"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_every_chart_can_be_drawn_and_is_as_wide_as_a_phone(name):
    chart = DRAWN[name]()
    assert json.loads(chart.to_json())["width"] == charts.WIDTH
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert svg.startswith("<svg")
    assert "NaN" not in svg
    assert "undefined" not in svg


def words(chart):
    """Everything that is written in a picture."""
    return vl_convert.vegalite_to_svg(chart.to_json())


def test_a_gain_stands_beside_name_model_and_samples():
    assert "p0 · mlp · 1,200" in words(charts.gains(GAIN, "points"))


def test_with_many_participants_the_names_are_left_out():
    many = [{**GAIN[0], "participant": f"p{n}"} for n in range(charts.FEW + 1)]
    svg = words(charts.gains(many, "points"))
    assert "p0 ·" not in svg
    assert f"{len(many)} participants, sorted" in svg


def test_bytes_are_written_with_units():
    assert "MB" in words(charts.curves(CURVE, "bytes", "accuracy %", "bytes"))


def test_what_sends_little_is_told_from_what_sends_nothing_beside_what_sends_much():
    """The axis bends, and has marks from the least to the most."""
    rows = [{**CURVE[0], "method": name, "bytes": sent} for name, sent in (("Local", 0), ("FD", 2e4), ("FML", 5e6))]
    svg = words(charts.curves(rows, "bytes", "accuracy %", "bytes"))
    assert [mark for mark in ("0 B", "10 kB", "100 kB", "1 MB") if f">{mark}<" not in svg] == []
    assert "symlog" not in charts.curves(CURVE, "bytes", "accuracy %", "bytes").to_json()


def test_a_round_stands_once_at_the_axis():
    rows = [{**CURVE[0], "round": number} for number in range(1, 6)]
    svg = words(charts.curves(rows, "round", "accuracy %", "round"))
    assert [svg.count(f">{number}<") for number in range(1, 6)] == [1] * 5


def test_each_exchange_has_a_bar_with_the_sum_of_both_ways_and_none_without_bytes():
    rows = [{**row, "bytes": row["bytes"] + more} for row in TRAFFIC for more in (0, 1500)]
    svg = words(charts.traffic([*rows, {**TRAFFIC[0], "exchange": "greet", "bytes": 0.0}]))
    assert ">FD · votes<" in svg
    assert ">3.0 kB<" in svg
    assert "greet" not in svg


def test_methods_have_colours_of_their_own_and_dashes_where_those_come_again():
    names = [f"m{n}" for n in range(len(SERIES) + 1)]
    rows = [{**CURVE[0], "method": name} for name in names]
    line = json.loads(charts.curves(rows, "round", "accuracy", "round").to_json())["layer"][1]["encoding"]
    colours, dashes = line["color"]["scale"]["range"], line["strokeDash"]["scale"]["range"]
    looks = {(colour, tuple(dash)) for colour, dash in zip(colours, dashes, strict=True)}
    assert len(looks) == len(names)
    assert len(set(colours)) == len(SERIES)
