"""Finds methods, models and data sources by name, Potluck's own and other packages', and calls them with settings.

Another package adds one with an entry point, e.g. ``[project.entry-points."potluck.methods"]``
``mine = "my_package:MyMethod"``; anything can also be named directly as ``"package.module:name"``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from potluck.core.errors import PotluckError, SettingsError, nearest
from potluck.core.settings import Mistake
from potluck.core.user_code import error_in_user_code

_ALLOWED: ContextVar[Collection[str] | None] = ContextVar("allowed", default=None)


@contextmanager
def importing_only(allowed: Collection[str]) -> Iterator[None]:
    """Inside, nothing is imported by a name that is not exactly one of these: others chose the names."""
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def _check_allowed(name: str) -> None:
    allowed = _ALLOWED.get()
    if allowed is not None and name not in allowed:
        raise SettingsError(f"{name!r} is code that is not allowed to be imported here.")


class UserModules(MetaPathFinder):
    """Finds modules where users keep them: beside a run file, then in the working directory, wherever that is by then.

    It comes before the places where Python looks, as a script's own folder does, and it stays, since a user's function
    may import something only when it is called.
    """

    def __init__(self) -> None:
        self.folders: list[str] = []

    def look_in(self, folder: Path | None = None) -> None:
        """Has modules looked for from now on, in this folder before all others."""
        if folder is not None:
            first = str(folder.resolve())
            self.folders = [first, *(other for other in self.folders if other != first)]
        if self not in sys.meta_path:
            sys.meta_path.insert(sys.meta_path.index(PathFinder), self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What Python asks; what lies inside a package is looked for in the package."""
        found = None if path is not None else PathFinder.find_spec(fullname, [*self.folders, os.getcwd()])
        if found is not None and found.loader is None and PathFinder.find_spec(fullname) is not None:
            return None  # a folder that happens to have a package's name
        return found


USER_MODULES = UserModules()
"""The one finder of this process."""


def import_object(path: str) -> Any:
    """What ``"package.module:name"`` names. Modules in the working directory are found too."""
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for name in (module_name, attribute) for part in name.split(".")):
        raise SettingsError(f"{path[:200]!r} does not name an object; expected 'package.module:name'.")
    _check_allowed(path)
    USER_MODULES.look_in()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SettingsError(f"{path!r}: there is no module {error.name!r} to import.") from error
    except PotluckError:
        raise
    except Exception as error:
        if (place := error_in_user_code(error)) is None:
            raise
        raise SettingsError(f"{path!r} cannot be imported: {place}.") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise SettingsError(f"{path!r}: {module_name!r} has no {part!r}.{nearest(part, _public(found))}")
        found = getattr(found, part)
    return found


def _public(owner: Any) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


class Registry(Mapping[str, Any]):
    """A read-only mapping from names to objects: the built-in ones, then entry points of one group.

    Args:
        kind: what it holds, and the last part of the entry points' group: "methods" for ``potluck.methods``.
        builtin: Potluck's own, by name.
    """

    def __init__(self, kind: str, builtin: Mapping[str, Any]) -> None:
        self.kind = kind
        self._builtin = {_key(name): (name, thing) for name, thing in builtin.items()}

    def __getitem__(self, name: str) -> Any:
        if ":" in name:
            return import_object(name)
        if _key(name) in self._builtin:
            return self._builtin[_key(name)][1]
        for point in self._announced():
            if _key(point.name) == _key(name):
                _check_allowed(name)
                return point.load()
        raise SettingsError(f"There is no {self.kind.removesuffix('s')} {name!r}.{nearest(name, self)}")

    def __iter__(self) -> Iterator[str]:
        yield from (name for name, _ in self._builtin.values())
        yield from (point.name for point in self._announced() if _key(point.name) not in self._builtin)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(_key(name) == _key(known) for known in self)

    def builtin(self, name: str) -> bool:
        """Whether this is a name of Potluck's own: nothing is imported by it."""
        return _key(name) in self._builtin

    def _announced(self) -> Any:
        return entry_points(group=f"potluck.{self.kind}")


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def call(name: str, function: Callable[..., Any], settings: Mapping[str, Any], **given: Any) -> Any:
    """Calls ``function(**given, **settings)``; raises SettingsError with the name of a wrong or missing setting."""
    for _, wrong in misfits(name, function, settings, given):
        raise SettingsError(wrong)
    return function(**given, **settings)


def misfits(
    name: str, function: Callable[..., Any], settings: Mapping[str, Any], given: Collection[str]
) -> list[Mistake]:
    """The reasons why the function cannot be called with these settings and these other arguments."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    free = [parameter.name for parameter in parameters if parameter.name not in given]
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    unknown = [setting for setting in settings if setting in given or not (setting in free or open_ended)]
    if unknown:
        return [((key,), f"{name!r} has no setting {key!r}.{nearest(key, free)}") for key in unknown]
    try:
        signature.bind(**dict.fromkeys(given), **settings)
    except TypeError as error:
        return [((), f"{name!r}: {error}. Settings: {', '.join(free)}.")]
    return []
