"""The base of everything a user sets: typed, frozen, checked when made, with errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from potluck.errors import SettingsError, nearest

Place = tuple[str | int, ...]
"""The way from the whole to one setting: names, and positions in lists."""


class Settings(BaseModel):
    """Settings are the constructor's keyword arguments, kept under the same names."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingsError(explain(type(self), error)) from None


def explain(kind: type[BaseModel], error: ValidationError, place: Callable[[Place], str] | None = None) -> str:
    """A validation error in plain words: for each mistake the setting, what was given, what was expected.

    ``place`` says where a setting stands, such as a line of a file; by default it is named by itself.
    """
    lines = []
    for mistake in error.errors():
        where = tuple(
            part for part in mistake["loc"] if not str(part).startswith(("function-", "literal", "is-", "callable"))
        )
        setting = str(where[-1]) if where else "settings"
        stands = f"{place(where)}: " if place else ""
        if mistake["type"] == "extra_forbidden":
            owner = _owner(kind, where[:-1])
            lines.append(f"{stands}{owner.__name__} has no setting {setting!r}.{nearest(setting, owner.model_fields)}")
        elif mistake["type"] == "missing":
            lines.append(f"{stands}{_owner(kind, where[:-1]).__name__} lacks {setting!r}.")
        elif mistake["type"] == "value_error":
            lines.append(f"{stands}{mistake['msg'].removeprefix('Value error, ')}")
        else:
            title = "" if place else f"{kind.__name__}: "
            lines.append(f"{stands}{title}{setting} = {mistake['input']!r}. {mistake['msg']}.")
    return "\n".join(dict.fromkeys(lines))


def _owner(kind: type[BaseModel], where: Place) -> type[BaseModel]:
    """The settings that a place inside ``kind`` belongs to."""
    for part in where:
        if isinstance(part, str) and part in kind.model_fields:
            kind = _settings_in(kind.model_fields[part].annotation) or kind
    return kind


def _settings_in(annotation: Any) -> type[BaseModel] | None:
    """The settings class inside ``list[X]``, ``X | None`` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _settings_in(part))), None)
