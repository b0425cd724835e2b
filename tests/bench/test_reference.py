"""Where a machine stands against the figures in the docs."""

from __future__ import annotations

import json

import pytest

from potluck.bench.reference import against, load_reference, make_reference, standing
from potluck.bench.results import Figure, Results

MACHINE = {"cpu": "C", "cores": 2, "torch": "2.13"}
ROUND = Figure.of("a round", [2.0], "s")
RATIO = Figure.of("a over b", [2.0], "×", "higher", goal=1.5)


def reference(**values):
    figures = [Figure.of("a round", [values["round"]], "s"), Figure.of("a over b", [values["ratio"]], "×", "higher")]
    return json.loads(make_reference([Results("bench", figures, machine=MACHINE)]))["figures"]


def test_better_is_more_than_one_from_both_sides():
    known = reference(round=6.0, ratio=1.0)
    assert against(ROUND, known) == against(RATIO, known) + 1 == 3.0
    assert known["a round"]["machine"] == "C, 2 cores, torch 2.13"


def test_the_table_says_where_it_stands():
    rows = standing([ROUND, RATIO], reference(round=1.0, ratio=2.1)).rows
    assert [list(row) for row in rows] == [
        ["a round", "2.00 s", "1.00 s", "2.00 × worse", ""],
        ["a over b", "2.00 ×", "2.10 ×", "level", "≥ 1.50 met"],
    ]


def test_what_the_docs_do_not_tell_is_left_open():
    assert against(ROUND, {}) is None
    assert against(ROUND, {"a round": {"value": 1.0, "unit": "ms"}}) is None
    assert list(standing([ROUND], {}).rows[0]) == ["a round", "2.00 s", "–", "", ""]


def test_the_reference_comes_with_the_package():
    for known in load_reference().values():
        assert known["value"] > 0
        assert known.keys() == {"value", "unit", "machine"}


@pytest.mark.parametrize("times", [0.8, 1.0, 1.25])
def test_a_quarter_is_level(times):
    assert standing([ROUND], reference(round=2.0 * times, ratio=1.0)).rows[0][3] == "level"
