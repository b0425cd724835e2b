"""What came of an item: ours beside what was published, the difference, and how far the order agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from potluck.comparison.cell_queue import each_reason
from potluck.core.errors import SettingsError, nearest
from potluck.recipes.paper_item import PaperItem, PaperRow, ReproductionScale
from potluck.report.comparison import spread
from potluck.report.tables import Table
from potluck.reproduction.measures import Runs, measure_named


@dataclass(frozen=True)
class Reproduction:
    """An item as it was played.

    Args:
        item: the table or figure.
        scale: how large it was played.
        runs: seed → name of a row → run.
        failed: what could not be played, with the reason.
    """

    item: PaperItem
    scale: ReproductionScale
    runs: Mapping[int, Runs]
    failed: Mapping[str, str]

    @property
    def made_up(self) -> bool:
        """Whether the data are no real ones, so that nothing can be compared with what was published."""
        return self.scale == "smoke"

    def values(self, row: PaperRow | str, measure: str) -> list[float]:
        """Seed by seed what a row reached; seeds in which it reached nothing are left out.

        Args:
            row: the row, or its name.
            measure: what is measured, beside the rows of its group.
        """
        measuring, asked = (
            measure_named(measure, bool(self.item.inspect)),
            self.row(row) if isinstance(row, str) else row,
        )
        peers = [other for other in self.item.rows if other.group == asked.group]
        found = (
            measuring(asked.title, {peer.title: runs[peer.name] for peer in peers if peer.name in runs})
            for runs in self.runs.values()
            if asked.name in runs
        )
        return [value for value in found if value is not None]

    def row(self, name: str) -> PaperRow:
        """A row by its name."""
        known = {row.name: row for row in self.item.rows}
        if name not in known:
            raise SettingsError(f"There is no row {name!r}.{nearest(name, known)}")
        return known[name]

    def table(self) -> Table:
        """A row for each row and measure: ours, theirs, the difference."""
        rows = []
        for row in self.item.rows:
            for measure in self.item.measures:
                ours, theirs = self.values(row, measure), row.published.get(measure)
                rows.append([row.name, measure, _ours(ours), *_theirs([] if self.made_up else ours, theirs)])
        return Table(["", "measure", "ours", "published", "difference"], rows, texts=2)

    def agreement(self, measure: str) -> tuple[int, int]:
        """How many pairs of rows are in the published order, and of how many; what is level there counts for nothing.

        Whether more or less is better does not matter: both orders are read alike.
        """
        both = [
            (fmean(ours), row.published[measure])
            for row in self.item.rows
            if measure in row.published and (ours := self.values(row, measure))
        ]
        pairs = [(one, other) for one, other in combinations(both, 2) if one[1] != other[1]]
        return sum((one[0] - other[0]) * (one[1] - other[1]) > 0 for one, other in pairs), len(pairs)

    def sentences(self) -> list[str]:
        """What can be said, measure by measure, and what was reduced."""
        lines = [f"The paper: {self.item.claim}"] if self.item.claim else []
        for measure in self.item.measures:
            agreeing, pairs = self.agreement(measure)
            if pairs and not self.made_up:
                lines.append(f"By {measure} {agreeing} of {pairs} pairs of rows are in the published order.")
        if self.made_up:
            lines.append("The data are made: this shows that the recipe runs, and nothing else.")
        elif len(self.runs) < 3 and not self.item.counted:
            lines.append(f"{len(self.runs)} seed{'s' * (len(self.runs) != 1)}: nothing can be concluded from so few.")
        if reduced := self.item.scales[self.scale].reduced:
            lines.append(f"Reduced: {reduced}")
        if self.item.open:
            lines.append(f"Left open by the paper: {self.item.open}")
        return [*lines, *(f"Not played: {line}" for line in each_reason(self.failed))]


def _ours(values: Sequence[float]) -> str:
    if not values:
        return "–"
    mean, deviation = spread(values)
    return f"{mean:.4g}" + (f" ± {deviation:.2g}" if len(values) > 1 else "")


def _theirs(ours: Sequence[float], theirs: float | None) -> list[str]:
    if theirs is None:
        return ["–", "–"]
    return [f"{theirs:g}", f"{fmean(ours) - theirs:+.4g}" if ours else "–"]
