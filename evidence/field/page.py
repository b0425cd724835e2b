"""The tables of the docs, made from the results: docs/methods-results.md holds them between marks."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from evidence.field.line_up import LINE_UPS
from evidence.field.results import RESULTS, path_of
from potluck.core.history import readable_bytes
from potluck.report.metric import Metric, number
from potluck.report.standings import FLOOR

PAGE = Path(__file__).parents[2] / "docs" / "methods-results.md"
MARKED = re.compile(r"(<!-- table (?P<name>\w+) -->\n).*?(<!-- end -->)", re.S)
HEADINGS = ("method", "accuracy %", "gain over Local", "lost", "sent and received", "seconds", "rate")
WIDTH = 118
ACCURACY = Metric("accuracy", share=True)


def fill(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Writes all tables into the page."""
    page.write_text(filled(page.read_text(encoding="utf-8"), results), encoding="utf-8")


def filled(text: str, results: Path = RESULTS) -> str:
    """The page with every table as the results make it; one without results stays as it is."""

    def table_for(found: re.Match[str]) -> str:
        path = path_of(LINE_UPS[found["name"]], results)
        return found[1] + table(json.loads(path.read_text(encoding="utf-8"))) + found[3] if path.exists() else found[0]

    return MARKED.sub(table_for, text)


def table(content: Mapping[str, Any]) -> str:
    """The chosen setting of each method, the best first."""
    rows = [row for row in content["rows"] if row["chosen"] and row["seeds"]]
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|" + "---:|" * (len(HEADINGS) - 1)]
    for row in sorted(rows, key=lambda row: -fmean(row["accuracy"])):
        lines.append("| " + " | ".join(_cells(row, content["participants"])) + " |")
    told = [f"{row['method']} {_settings(row['settings'])}" for row in rows if row["settings"]]
    own = textwrap.wrap(f"Settings that are no defaults: {'; '.join(told)}.", WIDTH, break_long_words=False)
    played = f"Seeds {', '.join(map(str, content['seeds']))}, {content['rounds']} rounds, commit {content['commit']}; "
    where = textwrap.wrap(f"{played}{'; '.join(content['played with'])}.", WIDTH, break_long_words=False)
    return "\n".join([*lines, "", *where, "", *own, ""])


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in settings.items())


def _cells(row: Mapping[str, Any], participants: int) -> list[str]:
    name = f"**{FLOOR}**" if row["method"] == FLOOR else row["method"]
    return [
        name,
        ACCURACY.spread(row["accuracy"]),
        ACCURACY.spread(row["gain"], "+"),
        f"{number(row['lost'])} of {participants}" if row["lost"] else "–",
        readable_bytes(round(fmean(row["bytes"]))),
        number(row["seconds"], 0),
        str(row["tried"].get("plan.lr", "–")),
    ]
