"""All 53 tables and figures with results in the five papers, with the verdicts and seeds that follow from the results.

What each of them shows ships with the package (potluck/reproduction/rows.toml), and so does its verdict, which is
written there; what was played for it is in rows.toml beside this file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evidence.checks import VERDICTS, verdict
from evidence.comparisons import markdown
from evidence.outcomes import Results, count
from evidence.statements import STATEMENTS
from potluck.reproduction.items import item_files
from potluck.reproduction.rows import PaperVerdict, read_rows


@dataclass(frozen=True)
class Row:
    """One table or figure. ``main`` are those that a paper's own verdict is read from."""

    told: PaperVerdict
    runs: Sequence[str] = ()
    only: Sequence[str] = ()
    main: bool = False

    @property
    def name(self) -> str:
        return self.told.title

    @property
    def paper(self) -> str:
        return self.told.paper

    @property
    def is_counted(self) -> bool:
        """It needs no training."""
        return any(run.startswith("counts.") for run in self.runs)

    def verdict(self, results: Results) -> str:
        return verdict(STATEMENTS.get(self.name, []), results)

    def seeds(self, results: Results) -> str:
        """How many each of its settings was played under, the fewest first."""
        if self.is_counted or not self.runs:
            return "–"
        counts = sorted({len(results.runs(run)) for run in self.runs})
        return " to ".join(count(found) for found in dict.fromkeys((counts[0], counts[-1])))

    @property
    def scale(self) -> str:
        """How it was played, or what that takes; what cannot be played says why."""
        return self.told.missing or self.told.scale

    @property
    def command(self) -> str:
        """What makes it again; of what was not tried, what would play it."""
        if self.is_counted:
            return f"`counts --only {self.paper.lower()}`"
        if self.only:
            return f"`run_all --only {' '.join(self.only)}`"
        return f"`potluck reproduce {self.told.name}`" if self.told.name in item_files() else "–"


@cache
def rows() -> tuple[Row, ...]:
    listed = tomllib.loads((Path(__file__).parent / "rows.toml").read_text())["row"]
    played = {f"{row.pop('paper')}, {row.pop('item')}": row for row in listed}
    return tuple(Row(told, **played.pop(told.title, {})) for told in read_rows().values())


def all_rows(results: Results) -> str:
    """The table of all tables and figures."""
    found = [
        [row.name, row.told.shows, row.verdict(results), row.scale, row.seeds(results), row.command] for row in rows()
    ]
    return markdown(["", "shows", "verdict", "scale, or what it takes", "seeds", "command"], found)


def told_anew(text: str, results: Results) -> str:
    """The file that ships, with each row's verdict and seeds as the results have them."""
    for row in rows():
        head = rf'paper = "{row.paper}"\nitem = "{row.told.item}"\nshows = .*\n'
        told = rf'\g<1>verdict = "{row.verdict(results)}"\n\g<2>seeds = "{row.seeds(results)}"\n'
        text = re.sub(rf"({head})verdict = .*\n(scale = .*\n)seeds = .*\n", told, text)
    return text


def paper_verdict(paper: str, results: Results) -> str:
    """Of what the paper's main tables and figures say together."""
    return verdict([one for row in rows() if row.main and row.paper == paper for one in STATEMENTS[row.name]], results)


def tried(results: Results) -> dict[str, int]:
    """Verdict → how many rows have it."""
    found = [row.verdict(results) for row in rows()]
    return {name: found.count(name) for name in VERDICTS}
