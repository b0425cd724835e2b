"""Rows kept as columns come back as they were, in little memory."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potluck import History
from potluck.core.columns import Columns

values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
rows = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def kept(given_rows):
    columns = Columns()
    for row in given_rows:
        columns.append(row)
    return columns


def typed(row):
    return [(name, type(value), value) for name, value in row.items()]


def test_what_a_row_lacks_is_told_from_what_is_none():
    columns = kept([{"a": None}, {"b": 1}])
    assert [columns.has(index, "a") for index in range(2)] == [True, False]
    assert ("a" in columns, "c" in columns) == (True, False)


@given(st.lists(rows, max_size=12), st.data())
def test_rows_come_back_with_their_types_and_in_their_order(given_rows, data):
    columns = kept(given_rows)
    assert [typed(columns[i]) for i in range(len(columns))] == [typed(row) for row in given_rows]
    columns.cut(place := data.draw(st.integers(0, len(given_rows))))
    columns.append({"b": 2.5, "e": None})
    expected = [*given_rows[:place], {"b": 2.5, "e": None}]
    assert [typed(columns[i]) for i in range(len(columns))] == [typed(row) for row in expected]
    for name in "abcde":
        assert [columns.value(i, name) for i in range(len(columns))] == [row.get(name) for row in expected]


def test_a_column_is_added_up():
    columns = kept([{"a": 1}, {"b": 2}, {"a": 3, "b": None}])
    assert (columns.total("a"), columns.total("b"), columns.total("c")) == (4, 2, 0)


def many(participants, rounds, drawn):
    """Rows as a federation records them: all in the first round, then those who were drawn."""
    names = [f"participant-{index}" for index in range(participants)]
    for number in range(1, rounds + 1):
        first = number * drawn % participants
        for name in names if number == 1 else names[first : first + drawn]:
            yield {
                "round": number,
                "participant": name,
                "accuracy": len(name) / number / 20,
                "loss": 1.5 / number,
                "macro_f1": 0.3 / number,
                "balanced_accuracy": 0.2 / number,
                "bytes_up": 123_456 + number,
                "bytes_down": 654_321 + number,
                "seconds": 0.123 * number,
                "took_part": True,
                "refused": None,
            }


def memory_of(participants, rounds, drawn):
    """What a history holds in memory, without the participants' names, and the most it took to make it."""
    tracemalloc.start()
    try:
        history = History(many(participants, rounds, drawn))
        return history, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


CELL = 8
"""Bytes of a packed number, or of what leads to a text."""
PER_ROW = (11 + 3) * CELL * 1.25
"""Eleven columns, whom the row is about and what names it has; arrays grow by up to a fourth ahead of need."""
PER_PARTICIPANT = 300
"""A name, its number and where its newest row is, in a dict that is at times half empty."""


@pytest.mark.parametrize(
    ("participants", "rounds", "drawn"), [(2_000, 20, 50), pytest.param(100_000, 100, 100, marks=pytest.mark.slow)]
)
def test_a_history_is_small(participants, rounds, drawn):
    history, held, most = memory_of(participants, rounds, drawn)
    recorded = participants + (rounds - 1) * drawn
    assert sum(1 for _ in history.recorded()) == recorded
    assert len(history) == participants * rounds
    assert held < recorded * PER_ROW + participants * PER_PARTICIPANT + 50_000
    assert most < 200e6
