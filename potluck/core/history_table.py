"""A history as a table of text: the last round, and which one would have looked best."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from potluck.core.history import SERVER, readable_bytes

if TYPE_CHECKING:
    from potluck.core.history import History


def table_of(history: History) -> str:
    """The last round: each participant, with its further models beside it; below them the server's models."""
    final, best, spent = history.final, history.best, history.spent()
    best_of = {row["participant"]: row.get("accuracy") for row in best.rows}
    further = {(row["participant"], row["model"]): row for row in final.models}
    beside = list(dict.fromkeys(model for name, model in further if name != SERVER))
    table = Table(title=f"after round {final.round}")
    table.add_column("participant")
    for heading in ("accuracy", *beside, "macro F1", "loss", f"round {best.round}*", "sent", "received", "seconds"):
        table.add_column(heading, justify="right")
    for row in final.rows:
        name = row["participant"]
        up, down, seconds = spent[name]
        table.add_row(
            name,
            _share(row.get("accuracy")),
            *(_share(further.get((name, model), {}).get("accuracy")) for model in beside),
            _share(row.get("macro_f1")),
            _number(row.get("loss")),
            _share(best_of.get(name)),
            readable_bytes(up),
            readable_bytes(down),
            f"{seconds:.1f}",
        )
    up, down = history.bytes()
    totals = (readable_bytes(up), readable_bytes(down), f"{history.seconds:.1f}")
    columns = [
        [row["accuracy"] for (name, own), row in further.items() if own == model and name != SERVER and _has(row)]
        for model in beside
    ]
    table.add_section()
    table.add_row("mean", _share(final.accuracy), *map(_mean, columns), "", "", _share(best.accuracy), *totals)
    table.add_row("worst", _share(final.worst), *map(_worst, columns), "", "", _share(best.worst))
    table.add_section()
    for (name, model), row in further.items():
        if name == SERVER:
            measured = _share(row.get("macro_f1")), _number(row.get("loss"))
            table.add_row(f"{SERVER}: {model}", _share(row.get("accuracy")), *("" for _ in beside), *measured)
    console = Console(width=120, force_terminal=False, color_system=None, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
        console.print("* the best round, chosen on test data: not a result", style="dim")
    return capture.get()


def _has(row: dict[str, Any]) -> bool:
    return row.get("accuracy") is not None


def _mean(values: list[float]) -> str:
    return _share(sum(values) / len(values) if values else None)


def _worst(values: Iterable[float]) -> str:
    return _share(min(values, default=None))


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}%"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
