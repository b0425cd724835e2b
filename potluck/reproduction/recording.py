"""A run of a table or figure as a line of results: PAPER/ITEM.jsonl, with what its run folder says of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from potluck.comparison.cells import Cell
from potluck.core.history import Row
from potluck.report.folders import SETTINGS, read_json
from potluck.report.trials import Trial
from potluck.reproduction.circumstances import made_with
from potluck.reproduction.result_lines import ResultLine
from potluck.runs.checkpoint import fingerprint_of
from potluck.runs.live import LIVE


def file_of(name: str, folder: Path) -> Path:
    """Where the lines of an item are: "fedin-table-2b" is fedin/table-2b.jsonl, and "mine" is mine.jsonl."""
    return folder / f"{name.replace('-', '/', 1)}.jsonl"


def line_of(
    name: str, scale: str, cell: Cell, trial: Trial, found: Mapping[str, Any], beside: Mapping[str, Any]
) -> ResultLine:
    """The line of one run that was played to its end.

    Args:
        name: of the item.
        scale: how large it was played.
        cell: what was played.
        trial: what came of it.
        found: what was measured, by name.
        beside: what else kept the machine busy.
    """
    folder, live = cell.folder, read_json(cell.folder / LIVE)
    rounds = [list(rows) for _, rows in groupby(trial.history.rows(), key=itemgetter("round"))]
    present = [[row for row in rows if row["took_part"]] or rows for rows in rounds]
    course = trial.course("accuracy")
    known = [(number, mean) for number, mean in zip(course.rounds, course.means, strict=True) if mean is not None]
    return ResultLine(
        run=f"{name}.{scale}.{cell.entry.method}.{cell.seed}",
        experiment=name,
        setting=f"{scale}.{cell.entry.method}",
        seed=cell.seed,
        start=datetime.fromtimestamp(live["began"], UTC).isoformat(timespec="seconds"),
        seconds=round(live["now"] - live["began"], 2),
        planned=cell.recipe().rounds,
        played=len(rounds),
        done=True,
        beside=dict(beside),
        about={"changes": list(cell.changes), "measures": dict(found)},
        rounds={column: [_mean(rows, column) for rows in present] for column in ("bytes_up", "bytes_down", "seconds")},
        measured={"round": [number for number, _ in known], "accuracy": [mean for _, mean in known]},
        participants=dict(course.final),
        **made_with(read_json(folder / SETTINGS), fingerprint_of(folder / "checkpoints")),
    )


def _mean(rows: list[Row], column: str) -> float:
    return fmean(float(row[column]) for row in rows)
