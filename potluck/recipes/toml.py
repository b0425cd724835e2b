"""Reads a recipe from a TOML file: every mistake is told with its line, what was expected and the nearest name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from potluck.errors import SettingsError
from potluck.recipes.recipe import Recipe
from potluck.settings import Place, explain

_TABLE = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-.\"']+)\s*=")


def read(path: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe in a file, with settings changed as ``"key.of.table=value"`` says."""
    path = Path(path)
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from error
    for change in changes:
        _change(content, change)
    lines = line_numbers(text)
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise SettingsError(explain(Recipe, error, lambda place: f"{path}{_at(place, lines)}")) from None


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


def _at(place: Place, lines: Mapping[Place, int]) -> str:
    """Line and key of a setting, or of the nearest thing around it that the file holds."""
    key = ".".join(str(part) for part in place)
    for end in range(len(place), 0, -1):
        if place[:end] in lines:
            return f", line {lines[place[:end]]}, {key}"
    return f", {key}" if key else ""


def _change(content: dict[str, Any], change: str) -> None:
    """Sets one key as if it stood in the file."""
    key, equals, text = change.partition("=")
    if not key or not equals:
        raise SettingsError(f"{change!r} sets nothing; expected key=value, such as method.alpha=0.5.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is text
    *tables, last = key.strip().split(".")
    target: Any = content
    for name in tables:
        target = target[int(name)] if isinstance(target, list) and name.isdigit() else target.setdefault(name, {})
        if not isinstance(target, dict | list):
            raise SettingsError(f"{change!r}: {name!r} is {target!r}, which has no keys to set.")
    if isinstance(target, list):
        raise SettingsError(f"{change!r}: {'.'.join(tables)!r} is a list; name a position in it, such as 0.")
    target[last] = value
