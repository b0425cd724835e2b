"""Figures: the median, the range and the goal; as a table, as JSON, and beside those in the docs."""

from __future__ import annotations

import json

import pytest

from potluck.bench.measure import Timing
from potluck.bench.results import (
    Figure,
    Results,
    load_reference,
    make_reference,
    readable,
    reference_table,
    times_as_good,
)
from potluck.core.errors import DataError

SLOW = Figure.timed("a round", Timing(9.0, (3.0, 1.0, 2.0)), "ms", scale=10, goal=15)
FAST = Figure.of("a over b", [2.0, 4.0, 1.5], "×", "higher", goal=1.5)
MACHINE = {"cpu": "C", "cores": 2, "torch": "2.13"}
ROUND = Figure.of("a round", [2.0], "s")
RATIO = Figure.of("a over b", [2.0], "×", "higher", goal=1.5)


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


def reference(**values):
    figures = [Figure.of("a round", [values["round"]], "s"), Figure.of("a over b", [values["ratio"]], "×", "higher")]
    return json.loads(make_reference([Results("bench", figures, machine=MACHINE)]))["figures"]


def test_better_is_more_than_one_from_both_sides():
    known = reference(round=6.0, ratio=1.0)
    assert times_as_good(ROUND, known) == times_as_good(RATIO, known) + 1 == 3.0
    assert known["a round"]["machine"] == "C, 2 cores, torch 2.13"


def test_the_table_says_where_it_stands():
    rows = reference_table([ROUND, RATIO], reference(round=1.0, ratio=2.1)).rows
    assert [list(row) for row in rows] == [
        ["a round", "2.00 s", "1.00 s", "2.00 × worse", ""],
        ["a over b", "2.00 ×", "2.10 ×", "level", "≥ 1.50 met"],
    ]


def test_what_the_docs_do_not_tell_is_left_open():
    assert times_as_good(ROUND, {}) is None
    assert times_as_good(ROUND, {"a round": {"value": 1.0, "unit": "ms"}}) is None
    assert list(reference_table([ROUND], {}).rows[0]) == ["a round", "2.00 s", "–", "", ""]


def test_the_reference_comes_with_the_package():
    for known in load_reference().values():
        assert known["value"] > 0
        assert known.keys() == {"value", "unit", "machine"}


@pytest.mark.parametrize("times", [0.8, 1.0, 1.25])
def test_a_quarter_is_level(times):
    assert reference_table([ROUND], reference(round=2.0 * times, ratio=1.0)).rows[0][3] == "level"
