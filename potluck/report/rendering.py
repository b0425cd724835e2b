"""Figures as files: SVG, PNG, PDF by vl-convert, without a link to the outside, and their data as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from potluck.core.errors import PotluckError, how_to_install
from potluck.report.colours import LIGHT
from potluck.report.figure_data import Rows
from potluck.report.tables import Table

NO_CHARTS = f"Figures need altair and vl-convert-python, which are not installed: {how_to_install('plots')}"
SCALE = 3
"""A PNG has so many pixels for each of the figure's."""


def can_draw() -> bool:
    """Whether figures can be drawn."""
    return all(find_spec(name) is not None for name in ("altair", "vl_convert"))


def need_charts() -> None:
    """Raises PotluckError where figures cannot be drawn, before any work is done in vain."""
    if not can_draw():
        raise PotluckError(NO_CHARTS)


@dataclass(frozen=True)
class ReportFigure:
    """A figure of a report.

    Args:
        name: what its files are called.
        title: what it shows, in a few words.
        caption: how to read it.
        rows: its data.
        chart: altair's chart.
    """

    name: str
    title: str
    caption: str
    rows: Rows
    chart: Any

    def svg(self) -> str:
        """The picture for a page."""
        import vl_convert

        made: str = vl_convert.vegalite_to_svg(self.chart.to_json(validate=False))
        found = re.search(r"<svg.*</svg>", made, re.DOTALL)
        assert found is not None, "an SVG"
        return _within(found[0], self.name)

    def numbers(self, most: int = 200) -> Table | None:
        """The rows as a table; None for more than a page can show."""
        if not self.rows or len(self.rows) > most:
            return None
        headings = list(self.rows[0])
        texts = next((n for n, name in enumerate(headings) if isinstance(self.rows[0][name], int | float)), 1)
        return Table(headings, [[_cell(row.get(name)) for name in headings] for row in self.rows], texts=texts)

    def write(self, folder: Path, kinds: Sequence[str] = ("svg", "png", "pdf", "csv")) -> list[Path]:
        """The figure's files, in a folder."""
        import vl_convert

        spec = self.chart.properties(background=LIGHT["paper"]).to_json(validate=False)
        made: dict[str, Callable[[], bytes]] = {
            "svg": lambda: vl_convert.vegalite_to_svg(spec).encode(),
            "png": lambda: vl_convert.vegalite_to_png(spec, scale=SCALE),
            "pdf": lambda: vl_convert.vegalite_to_pdf(spec),
            "csv": lambda: csv_of(self.rows).encode(),
        }
        paths = [folder / f"{self.name}.{kind}" for kind in kinds]
        for kind, path in zip(kinds, paths, strict=True):
            path.write_bytes(made[kind]())
        return paths


def csv_of(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV, with all columns that any of them has."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _within(svg: str, name: str) -> str:
    """The picture as a part of a page, which says itself what it shows: names of its own, and no words for readers."""
    silent = re.sub(r' (?:role|aria-[a-z]+|xmlns(?::xlink)?)="[^"]*"', "", svg)
    return re.sub(r'((?:\bid=")|(?:url\(#))', rf"\g<1>{name}-", silent)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return (
        "" if value is None else f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    )
