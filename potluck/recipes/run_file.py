"""Reads a recipe from a TOML file: every mistake is told with its line, what was expected and the nearest name."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from potluck.core.errors import SettingsError
from potluck.core.settings import Place, mistakes
from potluck.recipes.beside import look_beside
from potluck.recipes.changes import change
from potluck.recipes.lines import line_numbers, line_of
from potluck.recipes.recipe import Recipe
from potluck.recipes.validation import Origin, Part

Kind = TypeVar("Kind", bound=Part)


@dataclass(frozen=True)
class File(Origin):
    """A run file, and what was changed about it on the command line."""

    path: Path = Path()
    content: dict[str, Any] = field(default_factory=dict)
    lines: dict[Place, int] = field(default_factory=dict)
    changed: tuple[Place, ...] = ()

    def tell(self, place: Place) -> str:
        """Line and key of a setting, or of the nearest thing around it that the file holds."""
        while place and isinstance(_at(self.content, place[:-1]), str):
            place = place[:-1]  # `method = "x"` has no line for `method.name`
        key = ".".join(str(part) for part in place)
        if any(place[: len(changed)] == changed for changed in self.changed):
            return f"command line, {key}"
        line = line_of(place, self.lines)
        return ", ".join([str(self.path), *([f"line {line}"] if line else []), *([key] if key else [])])

    def hint(self, place: Place) -> str:
        """What to do about settings in the file that belong to what was replaced on the command line."""
        if place[-1:] == ("name",) or (*place[:-1], "name") not in self.changed:
            return ""
        owner, name = ".".join(map(str, place[:-1])), _at(self.content, (*place[:-1], "name"))
        return f" To leave out the settings in the file: --set {owner}={name}"


def read(path: str | Path, changes: Sequence[str] = (), settings: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe in a file, with settings changed as ``"key.of.table=value"`` says, and others replaced."""
    return read_as(Recipe, path, changes, settings)


def read_as(
    kind: type[Kind], path: str | Path, changes: Sequence[str] = (), settings: Mapping[str, Any] | None = None
) -> Kind:
    """What a file holds, of whatever kind. Modules and files that it names are looked for in its folder."""
    path = Path(path)
    text = _text(path)
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from error
    changed = [change(content, each) for each in changes]
    for key, value in (settings or {}).items():
        content[key] = value
        changed.append((key,))
    look_beside(path.parent, content)
    file = File(path.parent.resolve(), path, content, line_numbers(text), tuple(changed))
    try:
        return kind.model_validate(content, context=file)
    except ValidationError as error:
        found = sorted(mistakes(kind, error), key=lambda mistake: line_of(mistake[0], file.lines) or 0)
        told = [" ".join([f"{file.tell(place)}:", *wrong.splitlines()]) + file.hint(place) for place, wrong in found]
        raise SettingsError("\n".join(told)) from None


def _text(path: Path) -> str:
    if not path.exists():
        raise SettingsError(f"There is no file {path}; `potluck new` writes one to start from.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}.") from error


def _at(content: Any, place: Place) -> Any:
    """What the content holds at a place; None if nothing."""
    for part in place:
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return None
    return content
