"""Calling a function that a run file named, with the settings that stand beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from potluck.core.errors import SettingsError, nearest
from potluck.core.settings import Mistake


def call(name: str, function: Callable[..., Any], settings: Mapping[str, Any], **given: Any) -> Any:
    """Calls ``function(**given, **settings)``; a setting that is wrong or missing is told by its name."""
    for _, wrong in misfits(name, function, settings, given):
        raise SettingsError(wrong)
    return function(**given, **settings)


def misfits(
    name: str, function: Callable[..., Any], settings: Mapping[str, Any], given: Collection[str]
) -> list[Mistake]:
    """What stands against calling the function with these settings and what will be given besides."""
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
