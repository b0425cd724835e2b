"""The figures in the docs, to see where another machine stands. They are kept in ``reference.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from potluck.bench.machine import in_words
from potluck.bench.results import Figure, Results, readable
from potluck.report.tables import Table

Reference = Mapping[str, Mapping[str, Any]]
"""Figure name → ``value``, ``unit`` and ``machine``."""

HEADINGS = ("figure", "here", "docs", "against docs", "goal")


def load_reference() -> Reference:
    """The reference that comes with the package; empty as long as nothing was measured."""
    found: Reference = json.loads(files("potluck.bench").joinpath("reference.json").read_text())["figures"]
    return found


def make_reference(results: Iterable[Results]) -> str:
    """``reference.json`` from the results of ``potluck bench`` on the machines of the docs."""
    figures = {
        figure.name: {"value": figure.value, "unit": figure.unit, "machine": in_words(found.machine)}
        for found in results
        for figure in found.figures
    }
    return json.dumps({"figures": figures}, indent=1, ensure_ascii=False) + "\n"


def against(figure: Figure, reference: Reference) -> float | None:
    """How many times as good as in the docs; None if they do not tell."""
    known = reference.get(figure.name)
    if known is None or known["unit"] != figure.unit or not known["value"] or not figure.value:
        return None
    return float(known["value"] / figure.value if figure.better == "lower" else figure.value / known["value"])


def standing(figures: Iterable[Figure], reference: Reference) -> Table:
    """Each figure beside the one in the docs."""
    rows = []
    for figure in figures:
        name, here, _, _, goal = figure.cells()
        times = against(figure, reference)
        there = "–" if times is None else f"{readable(reference[name]['value'])} {figure.unit}".strip()
        rows.append([name, here, there, "" if times is None else _said(times), goal])
    return Table(HEADINGS, rows, strong=3)


def _said(times: float) -> str:
    """In words: a quarter either way is what repeated runs differ by."""
    if 0.8 <= times <= 1.25:
        return "level"
    return f"{readable(times)} × better" if times > 1 else f"{readable(1 / times)} × worse"
