"""A section of a recipe, where its settings come from, and how a mistake deep inside it keeps its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from potluck.core.errors import SettingsError
from potluck.core.settings import Mistake, SettingPath, mistakes
from potluck.recipes.file_kinds import FileKind


class Section(BaseModel):
    """A section of a recipe: checked with the whole, so that every mistake is reported with its place.

    ``RENAMED``: names that keys had before, and what they are called now, so that an error can say it. ``KIND``: which
    kind of file it is the whole of, if it is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    RENAMED: ClassVar[dict[str, str]] = {}
    KIND: ClassVar[FileKind | None] = None


@dataclass(frozen=True)
class Origin:
    """Where settings come from: files they name are looked for in ``folder``.

    Args:
        folder: where the files are that they name; by default the working directory.
    """

    folder: Path = Path()

    @property
    def file(self) -> Path | None:
        """The file that they stand in, if they stand in one."""
        return None

    def tell(self, place: SettingPath) -> str:
        """Where a setting stands, for people."""
        return ".".join(str(part) for part in place) or "the recipe"


def refuse(found: Iterable[Mistake]) -> NoReturn:
    """Raises what a validator found wrong, each mistake at its place below the thing that is validated."""
    raise ValidationError.from_exception_data(
        "recipe",
        [
            InitErrorDetails(type=PydanticCustomError("mistake", "{text}", {"text": text}), loc=place, input=None)
            for place, text in found
        ],
    )


def wrong_in(kind: Callable[..., Any], settings: dict[str, Any]) -> list[Mistake]:
    """What is wrong with the settings of a class of settings, such as a plan or a method."""
    try:
        kind(**settings)
    except SettingsError as error:
        cause = error.__context__  # one mistake for each setting, where it is known
        if isinstance(cause, ValidationError) and isinstance(kind, type) and issubclass(kind, BaseModel):
            return mistakes(kind, cause)
        return [((), str(error))]
    return []
