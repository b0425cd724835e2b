"""A description: what participants disclosed of their tables, and what can be made of it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from potluck.core.errors import DataError
from potluck.report.tables import Table

if TYPE_CHECKING:
    from potluck.preparation.common_preprocessor import CommonPreprocessor, Scale

NOTHING, SHOWN = "–", 12
"""What stands for what nobody told, and how many categories of a column are shown."""


@dataclass(frozen=True)
class Description:
    """What is known of all participants' tables together.

    Args:
        participants: how many disclosed something.
        columns: name → "kind" ("number" or "category"), "held_by" (how many participants), and of numbers "count",
            "mean", "variance", "low", "high", "quartiles", "histogram" (the last five None where nobody disclosed
            them), of categories "categories" with their counts, and "numbers_at": at how many it holds nothing but
            numbers.
        classes: how often each label occurs.
    """

    participants: int
    columns: Mapping[str, Mapping[str, Any]]
    classes: Mapping[str, int]

    def preprocessor(self, scale: Scale = "standard", *, indicate_missing: bool = False) -> CommonPreprocessor:
        """What turns each participant's table into the same columns of numbers: ``Participant(preprocess=…)``.

        Args:
            scale: as in ``CommonPreprocessor``.
            indicate_missing: as in ``CommonPreprocessor``.
        """
        from potluck.preparation.common_preprocessor import CommonPreprocessor

        usable = {name: dict(about) for name, about in self.columns.items() if about.get("count") or _is_known(about)}
        if not usable:
            raise DataError("No participant told anything of its columns, so there is nothing to prepare them by.")
        return CommonPreprocessor(usable, scale, indicate_missing).fit(None)

    def table(self) -> Table:
        """A row for each column."""
        headings = ["column", "kind", "held by", "known", "mean", "deviation", "range", "quartiles"]
        return Table(headings, [self._row(name, about) for name, about in self.columns.items()], texts=2)

    def _row(self, name: str, about: Mapping[str, Any]) -> list[str]:
        held = f"{about['held_by']} of {self.participants}"
        if about["kind"] != "number":
            mixed = f", numbers at {about['numbers_at']}" if about["numbers_at"] else ""
            known = sum(about["categories"].values())
            return [name, f"categories{mixed}", held, str(known or NOTHING), *[""] * 4]
        if not about["count"]:
            return [name, "numbers", held, *[NOTHING] * 5]
        deviation = None if about["variance"] is None else math.sqrt(about["variance"])
        spread = NOTHING if about["low"] is None else f"{about['low']:.4g} to {about['high']:.4g}"
        quartiles = ", ".join(map(_short, about["quartiles"]))
        return [name, "numbers", held, str(about["count"]), _short(about["mean"]), _short(deviation), spread, quartiles]

    def text(self) -> str:
        """The table, and how often each category and each label occurs."""
        console = Console(
            width=160, force_terminal=False, color_system=None, markup=False, emoji=False, highlight=False
        )
        with console.capture() as capture:
            console.print(self.table().to_rich())
        lines = [line.rstrip() for line in capture.get().splitlines()]
        counted = {name: about["categories"] for name, about in self.columns.items() if about["kind"] == "category"}
        counted |= {"labels": self.classes}
        return "\n".join([*lines, "", *(f"{name}: {_frequent(found)}" for name, found in counted.items() if found)])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON."""
        content = {"participants": self.participants, "columns": self.columns, "classes": self.classes}
        Path(path).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Description:
        """Reads a description, or the one in a run's folder or summary."""
        file = Path(path)
        file = file / "summary.json" if file.is_dir() else file
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return Description(**content.get("description", content))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise DataError(f"{path} holds no description: {error}.") from error


def _short(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def _frequent(counts: Mapping[str, int]) -> str:
    """Values with their counts; of many the most frequent."""
    shown = sorted(counts, key=lambda value: -counts[value])[:SHOWN] if len(counts) > SHOWN else list(counts)
    more = f" and {len(counts) - SHOWN} more" if len(counts) > SHOWN else ""
    return ", ".join(f"{value} {counts[value]}" for value in shown) + more


def _is_known(about: Mapping[str, Any]) -> bool:
    return bool(about.get("categories"))
