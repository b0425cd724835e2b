"""What a run file finds by name: methods, models, sources, partitions, functions; and users' modules beside the file.

The settings of what is named stand beside the name. They are held against its signature when they are read, before
anything is loaded or built.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, ValidationInfo, create_model, model_validator
from pydantic.errors import PydanticUserError

from potluck.channel.codec import PayloadCodec
from potluck.channel.codecs import CODECS
from potluck.core.errors import PotluckError, SettingsError
from potluck.core.registry import USER_MODULES, Registry, import_object, misfits
from potluck.core.settings import Mistake, mistakes
from potluck.core.task_choice import TASKS, as_task
from potluck.data import PARTITIONS, SHIFTS, SOURCES
from potluck.data.sources import file_kind
from potluck.federation.method import Method
from potluck.ingestion import files
from potluck.ingestion.files import reader_of
from potluck.methods import METHODS
from potluck.models import MODELS
from potluck.preparation.common_preprocessor import READ_PREPROCESSOR, read_preprocessor
from potluck.recipes.validation import Origin, Section, refuse, wrong_in

SUPPLIED = {
    "model": ("input_shape", "classes"),
    "partition": ("y", "fine", "groups", "participants", "seed"),
    "shift": ("x", "number", "participants", "seed"),
}
"""What a recipe gives to a model's, a partition's or a shift's function itself: nothing to set in a file."""

_PATH = re.compile(r"([A-Za-z_]\w*)[\w.]*:[A-Za-z_][\w.]*")


class Named(Section):
    """Something found by its name, with settings of its own beside it."""

    model_config = ConfigDict(title="a table of settings")

    name: str = Field(min_length=1, description="what they are settings of")
    settings: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, given: Any) -> Any:
        """``"x"`` is short for ``{name = "x"}``; every other key is one of its settings."""
        if isinstance(given, str):
            return {"name": given}
        if not isinstance(given, dict):
            raise ValueError(f"{given!r} names nothing; expected a name, or a table with a name and settings.")
        if given.keys() == {"name", "settings"}:
            return given
        settings = {key: value for key, value in given.items() if key != "name"}
        return {"settings": settings} | ({"name": given["name"]} if "name" in given else {})


def _fits(lookup: Callable[[str], Any], supplied: tuple[str, ...], named: Named) -> Named:
    """Makes sure that something has this name and takes these settings."""
    if wrong := wrong_settings(lookup, supplied, named):
        refuse(wrong)
    return named


def wrong_settings(lookup: Callable[[str], Any], supplied: tuple[str, ...], named: Named) -> list[Mistake]:
    """The settings that what has this name does not take, and those of a wrong type."""
    function = _find(lookup, named.name)
    if not callable(function):
        refuse([(("name",), f"{named.name!r} is a {type(function).__name__}; expected a function or a class.")])
    try:
        taken = inspect.signature(function).parameters
    except ValueError:  # as of some that are written in C
        refuse([(("name",), f"{named.name!r} does not tell which settings it takes; name a function that calls it.")])
    given = [name for name in supplied if name in taken]
    return misfits(named.name, function, named.settings, given) or list(_ill_typed(function, named.settings))


def _source_fits(named: Named, info: ValidationInfo) -> Named:
    """Finds a file by its name, and it and a folder of data sets from the folder of the run file."""
    if (kind := file_kind(named.name)) is not None:
        named = Named.model_validate({"path": named.name, **named.settings, "name": kind})
    _fits(SOURCES.__getitem__, (), named)
    origin: Origin = info.context or Origin()
    if isinstance(folder := named.settings.get("data_dir"), str):
        found = origin.folder / Path(folder).expanduser()
        return Named(name=named.name, settings={**named.settings, "data_dir": str(found)})
    if named.name not in ("npz", "table"):
        return named
    path = origin.folder / Path(named.settings["path"]).expanduser()
    if not path.is_file():
        refuse([(("path",), f"there is no file {str(path)!r}.")])
    return Named.model_validate({**named.settings, "name": named.name, "path": str(path)})


def _data_fits(named: Named, info: ValidationInfo) -> Named:
    """Finds a participant's own data: a file or folder, from the folder of the run file, or a function."""
    origin: Origin = info.context or Origin()
    path = origin.folder / Path(named.name).expanduser()
    reader = None if _PATH.fullmatch(named.name) else reader_of(path)
    if reader is None:
        return _fits(import_object, (), named)
    if not path.exists():
        refuse([(("name",), f"there is no file {str(path)!r}.")])
    settings = {"path": str(path), **named.settings}
    return _fits(import_object, (), Named(name=f"{files.__name__}:{reader}", settings=settings))


def _class_fits(registry: Registry, base: type, called: str, named: Named) -> Named:
    """Makes sure that a class of settings has this name and takes these settings."""
    kind = _find(registry.__getitem__, named.name)
    if not (isinstance(kind, type) and issubclass(kind, base)):
        what = kind.__name__ if isinstance(kind, type) else f"a {type(kind).__name__}"
        refuse([(("name",), f"{named.name!r} is {what}; expected a subclass of {called}.")])
    wrong = wrong_in(kind, named.settings)
    if wrong:
        refuse(wrong)
    return named


def _task_fits(named: Named) -> Named:
    """Makes sure that a task has this name and takes these settings."""
    _fits(TASKS.__getitem__, (), named)
    try:
        as_task({"name": named.name, **named.settings}, "task")
    except PotluckError as error:
        refuse([((), str(error))])
    return named


def _find(lookup: Callable[[str], Any], name: str) -> Any:
    try:
        return lookup(name)
    except PotluckError as error:
        refuse([(("name",), str(error))])
    except (ValueError, AssertionError) as error:  # a bug in the module, not in the recipe: show where it is
        raise ImportError(f"{name!r} cannot be imported") from error


def _ill_typed(function: Callable[..., Any], settings: dict[str, Any]) -> Iterator[Mistake]:
    """Settings of another type than the function says, as far as it says anything."""
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
    except NameError:
        return  # types that are only known to a type checker
    for name, value in settings.items():
        if name not in parameters or parameters[name].annotation is inspect.Parameter.empty:
            continue
        try:
            single = create_model("Single", setting=(parameters[name].annotation, Field(alias=name)))
            single.model_validate({name: value})
        except ValidationError as error:
            yield from mistakes(single, error)
        except (PydanticUserError, NameError):
            continue  # a type that cannot be checked


MethodNamed = Annotated[Named, AfterValidator(partial(_class_fits, METHODS, Method, "potluck.Method"))]
CodecNamed = Annotated[
    Named, AfterValidator(partial(_class_fits, CODECS, PayloadCodec, "potluck.channel.codecs.Codec"))
]
ModelNamed = Annotated[Named, AfterValidator(partial(_fits, MODELS.__getitem__, SUPPLIED["model"]))]
SourceNamed = Annotated[Named, AfterValidator(_source_fits)]
PartitionNamed = Annotated[Named, AfterValidator(partial(_fits, PARTITIONS.__getitem__, SUPPLIED["partition"]))]
ShiftNamed = Annotated[Named, AfterValidator(partial(_fits, SHIFTS.__getitem__, SUPPLIED["shift"]))]
TaskNamed = Annotated[Named, AfterValidator(_task_fits)]
DataNamed = Annotated[Named, AfterValidator(_data_fits)]


def _preprocess_fits(named: Named, info: ValidationInfo) -> Named:
    """A common preprocessor's file, from the folder of the run file, or a function."""
    if not named.name.endswith(".json"):
        return _fits(import_object, (), named)
    origin: Origin = info.context or Origin()
    path = origin.folder / Path(named.name).expanduser()
    try:
        read_preprocessor(path)
    except PotluckError as error:
        refuse([(("name",), str(error))])
    return Named.model_validate({"name": READ_PREPROCESSOR, "path": str(path)})


PreprocessNamed = Annotated[Named, AfterValidator(_preprocess_fits)]
FunctionNamed = Annotated[Named, AfterValidator(partial(_fits, import_object, ()))]


def look_beside(folder: Path, content: Any) -> None:
    """Has modules looked for in the folder first, then in the working directory, then where Python looks.

    A module of the same name from another folder stays in use for as long as Python runs, so that one is an error.
    """
    USER_MODULES.look_in(folder)
    for name in sorted({match[1] for text in _texts(content) if (match := _PATH.fullmatch(text))}):
        ours = [path for path in (folder / f"{name}.py", folder / name / "__init__.py") if path.is_file()]
        used = getattr(sys.modules.get(name), "__file__", None)
        if ours and used and Path(used).resolve() != ours[0].resolve():
            raise SettingsError(
                f"{name!r} is in use from {used}, and {ours[0]} cannot take its place; rename it, "
                f"or start Python again."
            )


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict | list):
        for item in content.values() if isinstance(content, dict) else content:
            yield from _texts(item)
