"""What docs/choosing-a-method.md holds between marks: methods of a kind, with what was measured of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from evidence.field.line_up import LINE_UPS
from evidence.field.page import ACCURACY
from evidence.field.results import RESULTS, path_of
from potluck.core.history import readable_bytes
from potluck.federation.method_facts import facts_of, in_words
from potluck.methods import METHODS
from potluck.methods.guide import ADVICE, GUIDE, costs
from potluck.report.metric import number

PAGE = Path(__file__).parents[2] / "docs" / "choosing-a-method.md"
MARKED = re.compile(r"(<!-- methods: (?P<what>[^>]+) -->\n).*?(<!-- end -->)", re.S)
HEADINGS = ("method", "choose it", "needs", "gain over Local", "lost", "sent and received", "passes")
SAID = {
    "predictions": "answers to inputs, or means of them",
    "features": "also what inner layers make of samples, or means of that",
    "weights": "also weights of a network, or of a part of it",
}
"""Each kind of thing that leaves, in words. Plain counts, names and shapes leave with every method."""


def fill(results: Path = RESULTS, page: Path = PAGE) -> None:
    """Writes all tables into the page."""
    page.write_text(filled(page.read_text(encoding="utf-8"), results), encoding="utf-8")


def filled(text: str, results: Path = RESULTS) -> str:
    """The page with every table as the guide, the costs and the results of the mixed federation make it."""
    mixed = json.loads(path_of(LINE_UPS["mixed"], results).read_text(encoding="utf-8"))
    rows = {row["method"]: row for row in mixed["rows"] if row["chosen"] and row["seeds"]}

    def made(found: re.Match[str]) -> str:
        what = found["what"]
        if what in GUIDE:
            text = table(GUIDE[what], rows, mixed["participants"])
        else:
            text = {"what leaves": leaving(), "played": played(mixed)}[what]
        return found[1] + text + found[3]

    return MARKED.sub(made, text)


def table(names: Iterable[str], rows: Mapping[str, Mapping[str, Any]], participants: int) -> str:
    """A row for each method: those that gained most first, those that were not played last."""

    def place(name: str) -> tuple[bool, float]:
        return name not in rows, -fmean(rows[name]["gain"]) if name in rows else 0.0

    lines = [_row(HEADINGS), "|---|---|---|" + "---:|" * (len(HEADINGS) - 3)]
    for name in sorted(names, key=place):
        needs = ", ".join(in_words(facts_of(METHODS[name]).needs)) or "nothing"
        measured = _measured(rows[name], participants) if name in rows else ("not played", "", "")
        lines.append(_row((_link(name), ADVICE[name].choose, needs, *measured, costs()[name].trained)))
    return "\n".join([*lines, ""])


def played(mixed: Mapping[str, Any]) -> str:
    """What the numbers are from."""
    seeds = ", ".join(map(str, mixed["seeds"]))
    return f"Seeds {seeds}; {mixed['participants']} participants; {mixed['rounds']} rounds.\n"


def leaving() -> str:
    """Which methods there are for whoever lets only some kinds of things leave."""
    lines, allowed, listed = [_row(("may leave", "methods")), "|---|---|"], set[str](), set[str]()
    for kind, said in SAID.items():
        allowed.add(kind)
        fitting = [name for name in ADVICE if _kinds(name) and _kinds(name) <= allowed and name not in listed]
        listed.update(fitting)
        lines.append(_row((said, ", ".join(map(_link, fitting)))))
    return "\n".join([*lines, ""])


def _kinds(name: str) -> set[str]:
    """What leaves with a method beside plain counts, names and shapes."""
    return {kind for kinds in METHODS[name].leaves.values() for kind in kinds} - {"statistics"}


def _measured(row: Mapping[str, Any], participants: int) -> tuple[str, str, str]:
    """What a method gained, how many lost, and what everybody sent and received."""
    lost = f"{number(row['lost'])} of {participants}"
    return ACCURACY.spread(row["gain"], "+"), lost, readable_bytes(round(fmean(row["bytes"])))


def _link(name: str) -> str:
    """A method, as the paper calls it, where the page of methods has it."""
    title = facts_of(METHODS[name]).sentence.partition(" ")[0].rstrip(":,")
    return f"[{title}](methods.md#{''.join(c for c in title.lower() if c.isalnum() or c == '-')})"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
