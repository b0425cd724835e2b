"""Reads a recipe from a TOML file: every mistake is reported with its line, what was expected and the nearest name.

One setting of it may be changed on the command line, as ``--set key=value`` says.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from potluck.core.errors import SettingsError, nearest
from potluck.core.settings import SettingPath, mistakes
from potluck.recipes.file_kinds import mixed_up
from potluck.recipes.paper_item import PaperFile, PaperItem
from potluck.recipes.recipe import Recipe
from potluck.recipes.references import look_beside
from potluck.recipes.validation import Origin, Section

SectionKind = TypeVar("SectionKind", bound=Section)

LONGEST, DEEPEST = 1000, 50
"""How many characters a word of a file may have, and how deep brackets and keys may go."""

_LONG = re.compile(rf"[^\s,\[\]{{}}]{{{LONGEST + 1},}}")
_TABLE = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_\-.\"']+)\s*=")

MOST_MISTAKES = 50
"""How many mistakes of one file are told."""


@dataclass(frozen=True)
class RunFile(Origin):
    """A run file, and what was changed about it on the command line.

    Args:
        path: the file; by default none.
        content: what it says; by default nothing.
        lines: where each setting stands; by default nowhere.
        changed: what was changed on the command line; by default nothing.
    """

    path: Path = Path()
    content: dict[str, Any] = field(default_factory=dict)
    lines: dict[SettingPath, int] = field(default_factory=dict)
    changed: tuple[SettingPath, ...] = ()

    @property
    def file(self) -> Path:
        return self.folder / self.path.name

    def tell(self, place: SettingPath) -> str:
        """Line and key of a setting, or of the nearest thing around it that the file holds."""
        while place and isinstance(_at(self.content, place[:-1]), str):
            place = place[:-1]  # `method = "x"` has no line for `method.name`
        key = ".".join(str(part) for part in place)
        if any(place[: len(changed)] == changed for changed in self.changed):
            return f"command line, {key}"
        line = line_of(place, self.lines)
        return ", ".join([str(self.path), *([f"line {line}"] if line else []), *([key] if key else [])])

    def hint(self, place: SettingPath) -> str:
        """What to do about settings in the file that belong to what was replaced on the command line."""
        if place[-1:] == ("name",) or (*place[:-1], "name") not in self.changed:
            return ""
        owner, name = ".".join(map(str, place[:-1])), _at(self.content, (*place[:-1], "name"))
        return f" To leave out the settings in the file: --set {owner}={name}"


def read(path: str | Path, changes: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe in a file, with settings changed as ``"key.of.table=value"`` says, and others replaced."""
    return read_as(Recipe, path, changes, settings)


def read_paper(path: str | Path) -> PaperItem:
    """The table ``[paper]`` of a file, read by itself: the data that its federation names need not be there."""
    return read_as(PaperFile, path).paper


def read_as(
    kind: type[SectionKind], path: str | Path, changes: Sequence[str] = (), settings: Mapping[str, Any] | None = None
) -> SectionKind:
    """What a file holds, of whatever kind. Modules and files that it names are looked for in its folder."""
    path = Path(path)
    text = _text(path)
    check_size(path, text)
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from error
    changed = [change(content, each) for each in changes]
    for key, value in (settings or {}).items():
        content[key] = value
        changed.append((key,))
    look_beside(path.parent, content)
    file = RunFile(path.parent.resolve(), path, content, line_numbers(text), tuple(changed))
    try:
        return kind.model_validate(content, context=file)
    except ValidationError as error:
        if kind.KIND is not None and (sentence := mixed_up(path, content, kind.KIND)):
            raise SettingsError(sentence) from None
        found = sorted(mistakes(kind, error), key=lambda mistake: line_of(mistake[0], file.lines) or 0)
        texts = [" ".join([f"{file.tell(place)}:", *wrong.splitlines()]) + file.hint(place) for place, wrong in found]
        more = [f"… and {len(texts) - MOST_MISTAKES} more mistakes."] if len(texts) > MOST_MISTAKES else []
        raise SettingsError("\n".join(texts[:MOST_MISTAKES] + more)) from None


def _text(path: Path) -> str:
    try:
        if not path.exists():
            raise SettingsError(f"There is no file {path}; `potluck new` writes one to start from.")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, SettingsError):
            raise
        raise SettingsError(f"{str(path)[:200]} cannot be read: {error}.") from error


def check_size(path: Path, text: str) -> None:
    """Raises SettingsError, with the line, for what no reader of settings needs to be able to read."""
    depth = 0
    for number, line in enumerate(text.splitlines(), start=1):
        where = f"{path}, line {number}"
        if word := _LONG.search(line):
            raise SettingsError(f"{where}: {word[0][:20]}… has {len(word[0])} characters; expected at most {LONGEST}.")
        for letter in line:
            depth = max(0, depth + (letter in "[{") - (letter in "]}"))
            if depth > DEEPEST:
                raise SettingsError(f"{where}: brackets within brackets, {depth} deep; expected at most {DEEPEST}.")
        if line.partition("=")[0].count(".") > DEEPEST:
            raise SettingsError(f"{where}: a key of more than {DEEPEST} names; expected fewer dots.")


def _at(content: Any, place: SettingPath) -> Any:
    """What the content holds at a place; None if nothing."""
    for part in place:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
    return content


def change(content: dict[str, Any], text: str) -> SettingPath:
    """Sets one key as if it stood in the file, and returns its place. A value is TOML; a bare word is text."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise SettingsError(f"{text!r} sets nothing; expected key=value, such as method.alpha=0.5.")
    place: SettingPath = ()
    target: Any = content
    *tables, last = key.strip().split(".")
    for name in tables:
        index = _index(target, name, text)
        if isinstance(target, dict):
            target.setdefault(name, {})
        inner = target[index]
        if isinstance(inner, str):
            inner = target[index] = {"name": inner}  # `method = "x"` is short for `method = {name = "x"}`
        if not isinstance(inner, dict | list):
            raise SettingsError(f"{text!r}: {name!r} is {inner!r}, which has no keys to set.")
        place, target = (*place, index), inner
    index = _index(target, last, text)
    target[index] = _value(value.strip())
    return (*place, index)


def _index(target: Any, name: str, text: str) -> Any:
    """A key; or in a list a position, given as a number or as the name of what stands there."""
    if not isinstance(target, list):
        return name
    named = {str(item["name"]): at for at, item in enumerate(target) if isinstance(item, dict) and "name" in item}
    if name in named:
        return named[name]
    if name.isdigit() and int(name) < len(target):
        return int(name)
    raise SettingsError(
        f"{text!r}: {name!r} is none of the {len(target)} in the list; expected a position from 0 to "
        f"{len(target) - 1}" + (f", or a name.{nearest(name, named)}" if named else ".")
    )


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def values_of(text: str) -> list[str]:
    """The values in a list such as ``0.1,0.3`` or ``[16, 32],[8]``: a comma inside brackets or quotes parts nothing."""
    found, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth and not quote:
            found.append("")
        else:
            found[-1] += letter
    return [value.strip() for value in found if value.strip()]


def line_numbers(text: str) -> dict[SettingPath, int]:
    """Where each table and key of a TOML text stands."""
    found: dict[SettingPath, int] = {}
    counts: dict[SettingPath, int] = {}
    table: SettingPath = ()
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


def line_of(place: SettingPath, lines: Mapping[SettingPath, int]) -> int | None:
    """The line of a setting, or of the nearest thing around it that the file holds."""
    return next((lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in lines), None)


def _names(dotted: str) -> SettingPath:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))


def _in_lists(table: SettingPath, counts: Mapping[SettingPath, int]) -> SettingPath:
    """``participants.plan`` under the second ``[[participants]]`` is ``participants, 1, plan``."""
    place: SettingPath = ()
    for end in range(1, len(table) + 1):
        place = (*place, table[end - 1])
        if table[:end] in counts:
            place = (*place, counts[table[:end]])
    return place
