"""All 53 tables and figures with results in the five papers: read from rows.toml, with verdicts and seeds."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evidence.checks import VERDICTS, verdict
from evidence.comparisons import markdown
from evidence.outcomes import Results, count
from evidence.statements import STATEMENTS


@dataclass(frozen=True)
class Row:
    """One table or figure. ``main`` are those that a paper's own verdict is read from."""

    paper: str
    item: str
    shows: str
    scale: str
    runs: Sequence[str] = ()
    only: Sequence[str] = ()
    main: bool = False

    @property
    def name(self) -> str:
        return f"{self.paper}, {self.item}"

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
    def command(self) -> str:
        """What makes it again."""
        if self.is_counted:
            return f"`counts --only {self.paper.lower()}`"
        return f"`run_all --only {' '.join(self.only)}`" if self.only else "–"


@cache
def rows() -> tuple[Row, ...]:
    listed = tomllib.loads((Path(__file__).parent / "rows.toml").read_text())["row"]
    return tuple(Row(**row) for row in listed)


def all_rows(results: Results) -> str:
    """The table of all tables and figures."""
    found = [[row.name, row.shows, row.verdict(results), row.scale, row.seeds(results), row.command] for row in rows()]
    return markdown(["", "shows", "verdict", "scale, or what it takes", "seeds", "command"], found)


def paper_verdict(paper: str, results: Results) -> str:
    """Of what the paper's main tables and figures say together."""
    return verdict([one for row in rows() if row.main and row.paper == paper for one in STATEMENTS[row.name]], results)


def tried(results: Results) -> dict[str, int]:
    """Verdict → how many rows have it."""
    found = [row.verdict(results) for row in rows()]
    return {name: found.count(name) for name in VERDICTS}
