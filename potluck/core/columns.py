"""Rows of plain values, kept as columns: a dict for each row would take many times the memory."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

WHOLE = range(-(2**63), 2**63)
"""The whole numbers that a packed column holds."""


class Column:
    """One value for each row. Numbers of one kind are packed; among those with a point, NaN stands for None.

    Args:
        first: the first value, which says how to begin.
        before: how many rows there are already, without a value.
    """

    def __init__(self, first: Any, before: int) -> None:
        self._cells: array[float] | array[int] | list[Any]
        self._empty: Any
        if _is_whole(first):
            self._cells, self._empty = array("q", [0]) * before, 0
        elif _has_point(first):
            self._cells, self._empty = array("d", [math.nan]) * before, math.nan
        else:
            self._cells, self._empty = [None] * before, None

    def __getitem__(self, index: int) -> Any:
        return _none_for_nan(self._cells[index])

    def __iter__(self) -> Iterator[Any]:
        return map(_none_for_nan, self._cells)

    def append(self, value: Any) -> None:
        """Adds a row's value."""
        cells: Any = self._cells
        kind = cells.typecode if isinstance(cells, array) else None
        if (kind == "q" and not _is_whole(value)) or (kind == "d" and not _has_point(value)):
            cells, self._empty = list(self), None
            self._cells, kind = cells, None
        cells.append(math.nan if kind == "d" and value is None else value)

    def skip(self) -> None:
        """Adds a row that has no such value."""
        self._cells.append(self._empty)

    def cut(self, length: int) -> None:
        """Drops all rows from a place on."""
        del self._cells[length:]


class Columns:
    """Rows, each with names of its own, in an order of its own."""

    def __init__(self) -> None:
        self._columns: dict[str, Column] = {}
        self._layouts: dict[tuple[str, ...], int] = {}
        self._names: list[tuple[str, ...]] = []
        self._layout = array("L")

    def __len__(self) -> int:
        return len(self._layout)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: self._columns[name][index] for name in self._names[self._layout[index]]}

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds a row."""
        layout = tuple(row)
        if layout not in self._layouts:
            self._layouts[layout] = len(self._names)
            self._names.append(layout)
            for name in layout:
                if name not in self._columns:
                    self._columns[name] = Column(row[name], len(self))
        for name, column in self._columns.items():
            if name in row:
                column.append(row[name])
            else:
                column.skip()
        self._layout.append(self._layouts[layout])

    def cut(self, length: int) -> None:
        """Drops all rows from a place on."""
        for column in self._columns.values():
            column.cut(length)
        del self._layout[length:]

    def value(self, index: int, name: str) -> Any:
        """One value; None where the row has no such name."""
        return self._columns[name][index] if name in self._names[self._layout[index]] else None

    def has(self, index: int, name: str) -> bool:
        """Whether a row has such a name."""
        return name in self._names[self._layout[index]]

    def __contains__(self, name: object) -> bool:
        return name in self._columns  # whether any row has it

    def total(self, name: str) -> Any:
        """The sum of a column of numbers."""
        return sum(value for value in self._columns.get(name, ()) if value is not None)


def _none_for_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _is_whole(value: Any) -> bool:
    return type(value) is int and value in WHOLE


def _has_point(value: Any) -> bool:
    return value is None or isinstance(value, float)
