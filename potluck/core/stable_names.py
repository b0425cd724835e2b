"""Names of settings that are the same in every process: checkpoints and optimizers' states are identified by them."""

from __future__ import annotations

import re
import sys
from functools import partial, reduce
from typing import Any

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""An address in memory, as in the default text of an object."""


def stable_name(thing: Any) -> str | None:
    """A setting's name in every process; None if it has no such name.

    A function or class is ``"package.module:name"`` if it is found there: a lambda, a function defined inside another
    one, or a method of an object is not. A partial is named by its parts, anything else by its own text.
    """
    if isinstance(thing, partial):
        parts: dict[Any, Any] = {"": thing.func, **dict(enumerate(thing.args)), **thing.keywords}
        names = {key: stable_name(part) for key, part in parts.items()}
        return None if None in names.values() else f"partial {names}"
    if hasattr(thing, "__qualname__"):
        return _import_name(thing)
    text = str(thing)
    return None if _ADDRESS.search(text) else text


def readable_name(thing: Any) -> str:
    """The stable name, or else one that people recognise."""
    known = thing if hasattr(thing, "__qualname__") else type(thing)
    return stable_name(thing) or f"{_module(known)}:{known.__qualname__}"


def _import_name(thing: Any) -> str | None:
    module = _module(thing)
    for name in (thing.__qualname__, thing.__name__):  # some functions of torch are found under the shorter one only
        if reduce(lambda found, part: getattr(found, part, None), name.split("."), sys.modules.get(module)) == thing:
            return f"{module}:{name}"
    return None


def _module(thing: Any) -> str:
    return getattr(thing, "__module__", None) or ""
