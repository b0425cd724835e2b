"""Finds the line of a TOML text that a setting stands on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from potluck.core.settings import Place

_TABLE = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-.\"']+)\s*=")


def line_numbers(text: str) -> dict[Place, int]:
    """Where each table and key of a TOML text stands."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _TABLE.match(line):
            table = _names(match[2])
            if match[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
            table = _in_lists(table, counts)
            found.setdefault(table, number)
        elif match := _KEY.match(line):
            found.setdefault((*table, *_names(match[1])), number)
    return found


def line_of(place: Place, lines: Mapping[Place, int]) -> int | None:
    """The line of a setting, or of the nearest thing around it that the file holds."""
    return next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), None)


def _names(dotted: str) -> Place:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))


def _in_lists(table: Place, counts: Mapping[Place, int]) -> Place:
    """``participants.plan`` under the second ``[[participants]]`` is ``participants, 1, plan``."""
    place: Place = ()
    for end in range(1, len(table) + 1):
        place = (*place, table[end - 1])
        if table[:end] in counts:
            place = (*place, counts[table[:end]])
    return place
