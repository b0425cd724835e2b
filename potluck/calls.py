"""Calling a function that a run file named, with the settings that stand beside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from potluck.errors import SettingsError, nearest


def call(name: str, function: Callable[..., Any], settings: Mapping[str, Any], **given: Any) -> Any:
    """Calls ``function(**given, **settings)``; a setting that is wrong or missing is told by its name."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    free = [parameter.name for parameter in parameters if parameter.name not in given]
    for setting in settings:
        if setting in given or not (setting in free or open_ended):
            raise SettingsError(f"{name!r} has no setting {setting!r}.{nearest(setting, free)}")
    try:
        signature.bind(**given, **settings)
    except TypeError as error:
        raise SettingsError(f"{name!r}: {error}. Settings: {', '.join(free)}.") from None
    return function(**given, **settings)
