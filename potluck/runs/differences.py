"""Which settings of a run are others than they were, each with the value before and now."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

SHOWN = 5
"""How many are told; of the others their number."""
LONGEST = 60
"""How many characters of a value are told."""


def told_differences(before: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]) -> str:
    """Sentences about what differs under these names: empty where nothing that is known does, as of data.

    Args:
        before: the settings, as a run folder has them.
        now: the settings, as they would be written there.
        names: the keys to look at.
    """
    plain = json.loads(json.dumps(now, default=str))
    found = [line for name in names for line in _differing(name, before.get(name), plain.get(name))]
    more = f" {len(found) - SHOWN} more differ." if len(found) > SHOWN else ""
    return " ".join(found[:SHOWN]) + more


def _differing(place: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    old, new = _by_name(before), _by_name(now)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from _differing(f"{place}.{key}", old.get(key), new.get(key))
    else:
        yield f"{place} was {_short(before)}, and is {_short(now)}."


def _by_name(value: Any) -> Any:
    """A list of things with names, such as participants, as a dict."""
    if isinstance(value, list) and all(isinstance(each, dict) and "name" in each for each in value):
        return {str(each["name"]): each for each in value}
    return value


def _short(value: Any) -> str:
    if value is None:
        return "not there"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
