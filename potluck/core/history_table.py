"""A history as a table of text: the last round, and which one would have looked best."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from potluck.core.history import IDLE, SERVER, WHOSE, Row, readable_bytes
from potluck.core.metrics import SHARES, less_is_better, readable, title

if TYPE_CHECKING:
    from potluck.core.history import History


def table_of(history: History) -> str:
    """The last round: each participant, with its further models beside it; below them the server's models."""
    final, best, spent = history.final, history.best, history.spent()
    metric, others = final.metric, _others(final.rows, final.metric)
    best_of = {row["participant"]: row.get(metric) for row in best.rows}
    further = {(row["participant"], row["model"]): row for row in final.models}
    models = list(dict.fromkeys(model for name, model in further if name != SERVER))
    table = Table(title=f"after round {final.round}")
    table.add_column("participant")
    measured = (title(metric), *models, *map(title, others), f"round {best.round}*")
    for heading in (*measured, "sent", "received", "seconds"):
        table.add_column(heading, justify="right")
    for row in final.rows:
        name = row["participant"]
        up, down, seconds = spent[name]
        table.add_row(
            name,
            readable(metric, row.get(metric)),
            *(readable(metric, further.get((name, model), {}).get(metric)) for model in models),
            *(readable(other, row.get(other)) for other in others),
            readable(metric, best_of.get(name)),
            readable_bytes(up),
            readable_bytes(down),
            f"{seconds:.1f}",
        )
    up, down = history.bytes()
    totals = (readable_bytes(up), readable_bytes(down), f"{history.seconds:.1f}")
    columns = [
        [row[metric] for (name, own), row in further.items() if own == model and name != SERVER and _has(row, metric)]
        for model in models
    ]
    worst = max if less_is_better(metric) else min
    means = [readable(metric, sum(values) / len(values) if values else None) for values in columns]
    lowest = [readable(metric, worst(values, default=None)) for values in columns]
    empty = [""] * len(others)
    table.add_section()
    table.add_row("mean", readable(metric, final.score), *means, *empty, readable(metric, best.score), *totals)
    table.add_row("worst", readable(metric, final.worst), *lowest, *empty, readable(metric, best.worst))
    table.add_section()
    for (name, model), row in further.items():
        if name == SERVER:
            found = (readable(other, row.get(other)) for other in others)
            table.add_row(f"{SERVER}: {model}", readable(metric, row.get(metric)), *("" for _ in models), *found)
    console = Console(width=120, force_terminal=False, color_system=None, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(table)
        console.print("* the best round, chosen on test data: not a result", style="dim")
    return capture.get()


def _others(rows: tuple[Row, ...], metric: str) -> list[str]:
    """Two more metrics: shares before numbers; by default, of labels, always the same ones."""
    found = {name: True for row in rows for name in takewhile(lambda name: name not in IDLE, row) if name not in WHOSE}
    if found.keys() <= {"accuracy", "loss", "macro_f1", "balanced_accuracy"} and metric == "accuracy":
        return ["macro_f1", "loss"]
    return sorted([name for name in found if name != metric][:2], key=lambda name: name not in SHARES)


def _has(row: Row, metric: str) -> bool:
    return row.get(metric) is not None
