"""Results: figures with their range and the machine; as a table, as JSON, and beside the figures in the docs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any, Literal

from potluck.bench.measure import Timing, machine_in_words
from potluck.core.errors import DataError
from potluck.report.tables import Table
from potluck.runs.machine import describe_machine

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Figure:
    """One measured number: the median of several, and their range.

    Args:
        name: what was measured.
        value: the median.
        unit: what it is counted in, e.g. "s"; empty for a bare number.
        low: the smallest.
        high: the largest.
        repeats: how many there are; by default 1.
        first: the first time, which stands apart; None where it does not.
        better: whether "lower" (the default) or "higher" is better.
        goal: what is to be reached; None where there is no goal.
    """

    name: str
    value: float
    unit: str
    low: float
    high: float
    repeats: int = 1
    first: float | None = None
    better: Better = "lower"
    goal: float | None = None

    @staticmethod
    def of(
        name: str, values: Sequence[float], unit: str, better: Better = "lower", goal: float | None = None
    ) -> Figure:
        """The median of values that were measured turn by turn."""
        return Figure(name, median(values), unit, min(values), max(values), len(values), better=better, goal=goal)

    @staticmethod
    def timed(name: str, timing: Timing, unit: str, scale: float = 1.0, goal: float | None = None) -> Figure:
        """Seconds, or what a scale makes of them."""
        values = [scale * seconds for seconds in timing.seconds]
        return replace(Figure.of(name, values, unit, goal=goal), first=scale * timing.first)

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached; None where there is none."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.better == "lower" else self.value >= self.goal

    def cells(self) -> list[str]:
        """As a row of a table: name, median, range, first time, goal."""
        sign = {"lower": "≤", "higher": "≥"}[self.better]
        goal = "" if self.goal is None else f"{sign} {readable(self.goal)} {'met' if self.met else 'missed'}"
        return [
            self.name,
            f"{readable(self.value)} {self.unit}".strip(),
            f"{readable(self.low)} – {readable(self.high)}" if self.repeats > 1 else "",
            "" if self.first is None else readable(self.first),
            goal,
        ]


HEADINGS = ("figure", "median", "range", "first", "goal")


@dataclass(frozen=True)
class Results:
    """What one benchmark found.

    Args:
        benchmark: its name.
        figures: what it measured.
        settings: how it was run; by default empty.
        machine: where; by default this machine.
        measured: on which day; by default today.
    """

    benchmark: str
    figures: list[Figure]
    settings: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=describe_machine)
    measured: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    def table(self) -> Table:
        """The figures for people."""
        return Table(HEADINGS, [figure.cells() for figure in self.figures])

    def write(self, path: Path) -> None:
        """Writes all of it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    @staticmethod
    def read(path: Path) -> Results:
        """What ``write`` wrote."""
        try:
            found = json.loads(path.read_text())
            return Results(**{**found, "figures": [Figure(**figure) for figure in found["figures"]]})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} holds no results of a benchmark: {error}.") from error


def readable(value: float) -> str:
    """Three digits that count."""
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = 0
    while digits < 6 and abs(value) * 10**digits < 100:
        digits += 1
    return f"{value:.{digits}f}"


Reference = Mapping[str, Mapping[str, Any]]
"""Figure name → ``value``, ``unit`` and ``machine``."""

REFERENCE_HEADINGS = ("figure", "here", "docs", "against docs", "goal")


def load_reference() -> Reference:
    """The reference that comes with the package; empty as long as nothing was measured."""
    found: Reference = json.loads(files("potluck.bench").joinpath("reference.json").read_text())["figures"]
    return found


def make_reference(results: Iterable[Results]) -> str:
    """``reference.json`` from the results of ``potluck bench`` on the machines of the docs."""
    figures = {
        figure.name: {"value": figure.value, "unit": figure.unit, "machine": machine_in_words(found.machine)}
        for found in results
        for figure in found.figures
    }
    return json.dumps({"figures": figures}, indent=1, ensure_ascii=False) + "\n"


def times_as_good(figure: Figure, reference: Reference) -> float | None:
    """How many times as good as in the docs; None where they have no such figure."""
    known = reference.get(figure.name)
    if known is None or known["unit"] != figure.unit or not known["value"] or not figure.value:
        return None
    return float(known["value"] / figure.value if figure.better == "lower" else figure.value / known["value"])


def reference_table(figures: Iterable[Figure], reference: Reference) -> Table:
    """Each figure beside the one in the docs."""
    rows = []
    for figure in figures:
        name, here, _, _, goal = figure.cells()
        times = times_as_good(figure, reference)
        there = "–" if times is None else f"{readable(reference[name]['value'])} {figure.unit}".strip()
        rows.append([name, here, there, "" if times is None else _times_in_words(times), goal])
    return Table(REFERENCE_HEADINGS, rows, strong=3)


def _times_in_words(times: float) -> str:
    """A quarter either way is what repeated runs differ by."""
    if 0.8 <= times <= 1.25:
        return "level"
    return f"{readable(times)} × better" if times > 1 else f"{readable(1 / times)} × worse"
