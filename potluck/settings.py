"""The base of everything a user sets: typed, frozen, checked when made, with errors that say what to do."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from potluck.errors import SettingsError, nearest


class Settings(BaseModel):
    """Settings are the constructor's keyword arguments, kept under the same names."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingsError(explain(type(self), error)) from None


def explain(kind: type[BaseModel], error: ValidationError) -> str:
    """A validation error in plain words: for each mistake the setting, what was given, what was expected."""
    lines = []
    for mistake in error.errors():
        setting = ".".join(str(part) for part in mistake["loc"][:1]) or "settings"
        if mistake["type"] == "extra_forbidden":
            lines.append(f"{kind.__name__} has no setting {setting!r}.{nearest(setting, kind.model_fields)}")
        else:
            expected = mistake["msg"].removeprefix("Value error, ")
            lines.append(f"{kind.__name__}: {setting} = {mistake.get('input')!r}. {expected}.")
    return "\n".join(dict.fromkeys(lines))
