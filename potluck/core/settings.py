"""The base of all settings: typed, frozen, checked when made, with errors that say what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from potluck.core.errors import SettingsError, nearest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SettingPath = tuple[str | int, ...]
"""The path of a setting: names, and positions in lists."""

Mistake = tuple[SettingPath, str]
"""The path of a setting, and what is wrong with it."""

_CHOICE = re.compile(r"function-|literal|is-|callable|(int|float|str|bool)$")
"""The names of a type's alternatives in the path of an error."""


class Settings(BaseModel):
    """Settings are the constructor's keyword arguments, stored under the same names.

    ``RENAMED``: names that settings had before, and what they are called now, so that an error can say it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)
    RENAMED: ClassVar[dict[str, str]] = {}

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingsError(explain(type(self), error)) from None


def check_kind(name: str, value: Any, kind: type, example: str, *, optional: bool = False) -> None:
    """Raises SettingsError unless an argument of a function is of that class; None only where it is optional."""
    if not isinstance(value, kind) and not (optional and value is None):
        raise SettingsError(f"{name} is {value!r}; expected a {kind.__name__}, e.g. {example}.")


def check_count(name: str, value: Any, what: str, least: int, *, optional: bool = False) -> None:
    """Raises SettingsError unless an argument of a function is a number from ``least`` on, or None if optional."""
    if optional and value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        otherwise = ", or None" if optional else ""
        raise SettingsError(f"{name} is {value!r}; expected a number of {what} from {least} on{otherwise}.")


def by_name(given: Any, setting: str, what: str, choices: Mapping[str, type[Settings]]) -> Any:
    """Settings of one kind or another, which a user names: by a name, or by a table of that and of settings.

    Args:
        given: what a user gives; settings themselves, and None, stay as they are.
        setting: the name of the setting.
        what: what is chosen, for errors.
        choices: name → the kind of settings.
    """
    if given is None or isinstance(given, tuple(choices.values())):
        return given
    settings = {"name": given} if isinstance(given, str) else given
    if not isinstance(settings, Mapping) or not isinstance(settings.get("name"), str):
        known = ", ".join(choices)
        raise ValueError(f"{setting} = {given!r}; expected a name ({known}), or a table with a name and settings.")
    if settings["name"] not in choices:
        raise ValueError(f"There is no {what} {settings['name']!r}.{nearest(settings['name'], choices)}")
    return choices[settings["name"]](**settings)


def explain(kind: type[BaseModel], error: ValidationError) -> str:
    """A validation error as text: for each mistake the setting, its value, what was expected."""
    return "\n".join(text for _, text in mistakes(kind, error, f"{kind.__name__}: "))


def mistakes(kind: type[BaseModel], error: ValidationError, title: str = "") -> list[Mistake]:
    """Each mistake in a validation error, as text. ``title`` goes before a setting of a wrong value."""
    found: dict[SettingPath, list[ErrorDetails]] = {}
    for detail in error.errors():
        where = tuple(part for part in detail["loc"] if not _CHOICE.match(str(part)))
        found.setdefault(where, []).append(detail)
    return [(where, _explained(kind, where, details, title)) for where, details in found.items()]


def _explained(kind: type[BaseModel], where: SettingPath, details: list[ErrorDetails], title: str) -> str:
    """What is wrong with one setting. Where a value may be of several types there is an error for each."""
    owner, what = _owner(kind, where[:-1]), details[0]["type"]
    setting = str(where[-1]) if where else "settings"
    if where and isinstance(where[-1], int):
        setting = ".".join(map(str, where[-2:]))
    name = owner.model_config.get("title") or owner.__name__
    messages = list(dict.fromkeys(detail["msg"].removeprefix("Value error, ") for detail in details))
    if what == "extra_forbidden" and setting in (renamed := getattr(owner, "RENAMED", {})):
        return f"{name} has no setting {setting!r} any more; it is called {renamed[setting]!r} now."
    if what == "extra_forbidden":
        return f"{name} has no setting {setting!r}.{nearest(setting, owner.model_fields)}"
    if what == "missing":
        meaning = owner.model_fields[setting].description
        return f"{name} lacks {setting!r}{f' ({meaning})' if meaning else ''}."
    if what in ("value_error", "mistake"):
        return " ".join(messages)
    given = details[0]["input"]
    if what == "literal_error" and isinstance(given, str) and ":" not in given:
        known = re.findall("'([^']*)'", details[0]["ctx"]["expected"])
        return f"{title}{setting} = {given!r}.{nearest(given, known)}"
    others = [message.removeprefix("Input should be ") for message in messages[1:]]
    return f"{title}{setting} = {given!r}. {', or '.join([messages[0], *others])}."


def _owner(kind: type[BaseModel], where: SettingPath) -> type[BaseModel]:
    """The settings class that a path inside ``kind`` belongs to."""
    for part in where:
        if isinstance(part, str) and part in kind.model_fields:
            kind = _settings_in(kind.model_fields[part].annotation) or kind
    return kind


def _settings_in(annotation: Any) -> type[BaseModel] | None:
    """The settings class inside ``list[X]``, ``X | None`` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _settings_in(part))), None)
