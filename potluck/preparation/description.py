"""A description: what participants told of their tables, and what can be made of it."""

from __future__ import annotations

import json
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


@dataclass(frozen=True)
class Description:
    """What is known of all participants' tables together.

    Args:
        participants: how many told something.
        columns: name → "kind" ("number" or "category"), "held_by" (how many participants), and of numbers "count",
            "mean", "variance", "low", "high", "quartiles", "histogram", of categories "categories" with their counts.
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

        usable = {name: dict(about) for name, about in self.columns.items() if about.get("count") or _told(about)}
        if not usable:
            raise DataError("No participant told anything of its columns, so there is nothing to prepare them by.")
        return CommonPreprocessor(usable, scale, indicate_missing).fit(None)

    def table(self) -> Table:
        """A row for each column."""
        headings = ["column", "kind", "held by", "known", "mean", "deviation", "range", "quartiles"]
        return Table(headings, self._rows(), texts=2)

    def _rows(self) -> list[list[str]]:
        rows = []
        for name, about in self.columns.items():
            held = f"{about['held_by']} of {self.participants}"
            if about["kind"] == "number":
                spread = f"{about['low']:.4g} to {about['high']:.4g}"
                quartiles = ", ".join("–" if value is None else f"{value:.4g}" for value in about["quartiles"])
                told = [
                    str(about["count"]),
                    f"{about['mean']:.4g}",
                    f"{about['variance'] ** 0.5:.4g}",
                    spread,
                    quartiles,
                ]
                rows.append([name, "numbers", held, *(told if about["count"] else ["–"] * len(told))])
            else:
                values = ", ".join(f"{value} {count}" for value, count in about["categories"].items())
                rows.append([name, "categories", held, values or "–", "", "", "", ""])
        return rows

    def text(self) -> str:
        """The table, and how often each label occurs."""
        console = Console(
            width=160, force_terminal=False, color_system=None, markup=False, emoji=False, highlight=False
        )
        with console.capture() as capture:
            console.print(self.table().to_rich())
        lines = [line.rstrip() for line in capture.get().splitlines()]
        classes = ", ".join(f"{label} {count}" for label, count in self.classes.items())
        return "\n".join([*lines, *([f"labels: {classes}"] if classes else [])])

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


def _told(about: Mapping[str, Any]) -> bool:
    return bool(about.get("categories"))
