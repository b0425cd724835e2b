"""What is tried of a setting: some values, or for Optuna a range; and which methods it concerns."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from potluck.core.errors import SettingsError, nearest
from potluck.federation.method import Method
from potluck.methods import METHODS
from potluck.recipes.run_file import values_of
from potluck.report.standings import CEILING, FLOOR

_RANGE = re.compile(r"\s*([^\s,:]+?)\.\.([^\s,:]+?)(:log)?\s*")


@dataclass(frozen=True)
class Span:
    """A range of numbers.

    Args:
        low: the least.
        high: the largest.
        log: whether it is searched by orders of magnitude.
        whole: whether only whole numbers are meant.
    """

    low: float
    high: float
    log: bool
    whole: bool


@dataclass(frozen=True)
class Sweep:
    """Values to try for one setting: of one method, where ``method`` names one, else of all that have it.

    Args:
        key: the setting.
        values: what is tried, as a file would say it; nothing for a range.
        method: the method that it is a setting of; by default all that have it.
        span: a range to search; by default there are values.
    """

    key: str
    values: tuple[str, ...]
    method: str | None = None
    span: Span | None = None

    def applies(self, method: str) -> bool:
        """Whether a method has the setting."""
        if method == CEILING:
            method = FLOOR
        if self.method is not None:
            return same_name(self.method, method)
        table, _, name = self.key.partition(".")
        return table != "method" or name.partition(".")[0] in kind_of(method).model_fields

    @staticmethod
    def from_json(plain: dict[str, Any]) -> Sweep:
        """The sweep whose fields are given."""
        span = None if plain["span"] is None else Span(**plain["span"])
        return Sweep(plain["key"], tuple(plain["values"]), plain["method"], span)


def parse_sweeps(texts: Sequence[str], methods: Sequence[str]) -> list[Sweep]:
    """What several ``KEY=a,b,c`` say, of which each is for another setting."""
    found = [parse_sweep(text, methods) for text in texts]
    if doubled := [
        sweep.key
        for index, sweep in enumerate(found)
        if (sweep.key, sweep.method) in {(other.key, other.method) for other in found[:index]}
    ]:
        raise SettingsError(f"{doubled[0]} is swept twice; expected all its values in one --sweep.")
    return found


def parse_sweep(text: str, methods: Sequence[str]) -> Sweep:
    """What ``KEY=a,b,c`` says, or ``KEY=low..high``; ``CoFED.alpha=0.1,0.3`` is for that method alone."""
    key, equals, listed = text.partition("=")
    span = _span(listed, text)
    values = () if span is not None else tuple(values_of(listed))
    if not key.strip() or not equals or not (values or span):
        raise SettingsError(f"{text!r} sweeps nothing; expected KEY=a,b,c, such as plan.lr=0.01,0.1.")
    key = key.strip()
    table, _, name = key.partition(".")
    owner = next((method for method in methods if same_name(method, table)), None)
    sweep = Sweep(f"method.{name}", values, owner, span) if owner and name else Sweep(key, values, None, span)
    if not any(sweep.applies(method) for method in methods):
        known = {field for method in methods for field in kind_of(method).model_fields}
        raise SettingsError(f"{text!r}: none of {', '.join(methods)} has {sweep.key!r}.{nearest(name, known)}")
    return sweep


def _span(listed: str, text: str) -> Span | None:
    """The range that is meant, if one is."""
    match = _RANGE.fullmatch(listed)
    if match is None:
        return None
    try:
        low, high = float(match[1]), float(match[2])
    except ValueError:
        return None  # a text that happens to hold two dots
    whole = all(re.fullmatch(r"[+-]?\d+", bound) for bound in (match[1], match[2]))
    log = match[3] is not None
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high or (log and low <= 0):
        raise SettingsError(f"{text!r} is no range; expected KEY=low..high, and for :log a low above 0.")
    return Span(low, high, log, whole)


def kind_of(method: str) -> type[Method]:
    """The class of a method."""
    kind = METHODS[method]
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise SettingsError(f"{method!r} is no method; expected a subclass of potluck.Method.")
    return kind


def same_name(one: str, other: str) -> bool:
    """Whether two names mean the same method."""
    return one.lower().replace("-", "").replace("_", "") == other.lower().replace("-", "").replace("_", "")
