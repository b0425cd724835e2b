"""Figures: the median, the range and the goal; as a table and as JSON."""

from __future__ import annotations

import json

import pytest

from potluck.bench.machine import busy, describe, in_words
from potluck.bench.measure import Timing
from potluck.bench.results import Figure, Results, readable
from potluck.core.errors import DataError

SLOW = Figure.timed("a round", Timing(9.0, (3.0, 1.0, 2.0)), "ms", scale=10, goal=15)
FAST = Figure.of("a over b", [2.0, 4.0, 1.5], "×", "higher", goal=1.5)


def test_a_figure_is_the_median_with_its_range():
    assert (SLOW.value, SLOW.low, SLOW.high, SLOW.first, SLOW.repeats) == (20, 10, 30, 90, 3)
    assert SLOW.cells() == ["a round", "20.0 ms", "10.0 – 30.0", "90.0", "≤ 15.0 missed"]
    assert FAST.cells() == ["a over b", "2.00 ×", "1.50 – 4.00", "", "≥ 1.50 met"]


def test_a_goal_is_met_from_its_own_side():
    assert (SLOW.met, FAST.met, Figure.of("c", [1.0], "s").met) == (False, True, None)
    assert Figure.of("d", [15.0], "s", goal=15).met


def test_results_are_written_and_read(tmp_path):
    results = Results("rounds", [SLOW, FAST], {"repeats": 3})
    results.write(tmp_path / "deep" / "rounds.json")
    assert Results.read(tmp_path / "deep" / "rounds.json") == results
    assert json.loads((tmp_path / "deep" / "rounds.json").read_text())["machine"]["torch"]
    assert [list(row) for row in results.table().rows] == [SLOW.cells(), FAST.cells()]


def test_what_is_no_result_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"figures": [{"name": "a"}]}')
    for name in ("other.json", "missing.json"):
        with pytest.raises(DataError, match=f"{name} holds no results of a benchmark"):
            Results.read(tmp_path / name)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.01234, "0.0123"), (1.0, "1.00"), (12.34, "12.3"), (123.4, "123"), (12345, "12,345")],
)
def test_three_digits_count(value, text):
    assert readable(value) == text


def test_the_machine_is_told():
    machine = describe()
    assert machine["cores"] >= 1
    assert f"{machine['cores']} cores" in in_words(machine)
    assert in_words({"cpu": "C", "cores": 2, "gpu": "G", "torch": "2"}) == "C, 2 cores, G, torch 2"


def test_a_busy_machine_is_told():
    assert busy({"cores": 2, "load_before": 0.5}) is None
    assert "load 0.6 on 2 cores" in str(busy({"cores": 2, "load_before": 0.6}))
