"""Changes one setting of a run file, as ``--set key=value`` says."""

from __future__ import annotations

import tomllib
from typing import Any

from potluck.core.errors import SettingsError, nearest
from potluck.core.settings import Place


def change(content: dict[str, Any], text: str) -> Place:
    """Sets one key as if it stood in the file, and returns its place. A value is TOML; a bare word is text."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise SettingsError(f"{text!r} sets nothing; expected key=value, such as method.alpha=0.5.")
    place: Place = ()
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
