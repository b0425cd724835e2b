"""The history of a federation: one plain row for each round and participant, and what to read off them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]


@dataclass(frozen=True)
class Standing:
    """How all participants stood after one round: mean and worst accuracy, and the rows behind them."""

    round: int
    accuracy: float | None
    worst: float | None
    rows: tuple[Row, ...]
    chosen_on_test: bool = False
    """True where this round was picked for its test accuracy, which no honest result may be."""


class History:
    """Rows with round, participant, accuracy, loss, bytes_up, bytes_down, seconds, and what the method adds."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: list[Row] = []
        self._by_round: dict[int, list[Row]] = {}
        self.add(rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Iterable[Row]) -> list[Row]:
        """Appends the rows of one round, as they can be written: a number that is not finite becomes None."""
        plain = [{name: _writable(value) for name, value in row.items()} for row in rows]
        self._rows.extend(plain)
        for row in plain:
            self._by_round.setdefault(row["round"], []).append(row)
        return plain

    def rows(self) -> list[Row]:
        """All rows, as plain dicts."""
        return [dict(row) for row in self._rows]

    @property
    def rounds(self) -> int:
        """How many rounds have been played."""
        return max(self._by_round, default=0)

    @property
    def final(self) -> Standing:
        """The last round: what a table should show."""
        return self.at(self.rounds)

    @property
    def best(self) -> Standing:
        """The round of the best mean test accuracy: marked as such, since it is chosen on test data."""
        standings = [self.at(number) for number in sorted(self._by_round)]
        top = max(standings, key=lambda s: -1.0 if s.accuracy is None else s.accuracy, default=self.final)
        return Standing(top.round, top.accuracy, top.worst, top.rows, chosen_on_test=True)

    def at(self, round: int) -> Standing:
        """How all stood after one round."""
        rows = tuple(dict(row) for row in self._by_round.get(round, ()))
        scores = [row["accuracy"] for row in rows if row["accuracy"] is not None]
        if not scores:
            return Standing(round, None, None, rows)
        return Standing(round, sum(scores) / len(scores), min(scores), rows)

    def bytes(self, participant: str | None = None) -> tuple[int, int]:
        """Bytes sent up and down so far, by one participant or all of them."""
        rows = [row for row in self._rows if participant in (None, row["participant"])]
        return sum(row["bytes_up"] for row in rows), sum(row["bytes_down"] for row in rows)

    def to_json(self) -> str:
        """The rows as JSON."""
        return json.dumps(self._rows, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> History:
        """The history that ``to_json`` wrote."""
        return History(json.loads(text))

    def table(self) -> str:
        """The last round in a table, the best one marked as chosen on test data."""
        final, best = self.final, self.best
        best_of = {row["participant"]: row["accuracy"] for row in best.rows}
        table = Table(title=f"after round {final.round}")
        table.add_column("participant")
        for heading in ("accuracy", "macro F1", "loss", f"round {best.round}*", "sent", "received", "seconds"):
            table.add_column(heading, justify="right")
        own: dict[str, list[Row]] = {}
        for row in self._rows:
            own.setdefault(row["participant"], []).append(row)
        for row in final.rows:
            name = row["participant"]
            up, down, seconds = (sum(r[what] for r in own[name]) for what in ("bytes_up", "bytes_down", "seconds"))
            table.add_row(
                name,
                _share(row["accuracy"]),
                _share(row.get("macro_f1")),
                _number(row["loss"]),
                _share(best_of.get(name)),
                readable_bytes(up),
                readable_bytes(down),
                f"{seconds:.1f}",
            )
        table.add_section()
        table.add_row("mean", _share(final.accuracy), "", "", _share(best.accuracy), *self._totals())
        table.add_row("worst", _share(final.worst), "", "", _share(best.worst))
        console = Console(width=120, force_terminal=False, color_system=None, markup=False, emoji=False)
        with console.capture() as capture:
            console.print(table)
            console.print("* the best round, chosen on test data: not a result", style="dim")
        return capture.get()

    def _totals(self) -> tuple[str, str, str]:
        up, down = self.bytes()
        return readable_bytes(up), readable_bytes(down), f"{sum(row['seconds'] for row in self._rows):.1f}"


def _writable(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def readable_bytes(count: float) -> str:
    """A number of bytes for people, e.g. 12.3 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}%"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
