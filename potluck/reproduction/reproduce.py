"""``potluck.reproduce``: plays a table or figure of a paper, and sets it beside what was published."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from potluck.comparison.cell_queue import each_reason, play_all
from potluck.comparison.cells import Cell
from potluck.comparison.compare import Locked, RoundCount, versions
from potluck.comparison.play import is_done
from potluck.core.errors import PotluckError, SettingsError, nearest
from potluck.recipes.paper_item import PaperItem, PaperScale, ReproductionScale
from potluck.report.folders import read_trial
from potluck.report.trials import Entry
from potluck.reproduction.circumstances import load
from potluck.reproduction.items import base_of, find_item
from potluck.reproduction.outcome import Reproduction
from potluck.reproduction.recording import file_of, line_of
from potluck.reproduction.result_lines import append
from potluck.runs.folder import replace_file
from potluck.runs.provenance import commit

RESULT = "reproduction.json"


def reproduce(
    name: str,
    *,
    scale: ReproductionScale = "smoke",
    seeds: int = 1,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    record: str | os.PathLike[str] | None = None,
    watch: Callable[[int, int, str], None] | None = None,
) -> Reproduction:
    """Plays a table or figure of a paper. What was played already is not played again.

    Args:
        name: an item, as ``potluck reproduce --list`` shows it, such as "mhat-table-1"; or a run file with ``[paper]``.
        scale: "smoke" (by default) takes seconds on data that are made, "small" at most half an hour on two cores,
            "paper" is as in the paper.
        seeds: how many seeds, from 0 on; by default 1.
        out: the folder; by default ``runs/NAME-SCALE``.
        jobs: how many runs at a time; by default 1.
        record: a folder of results: each run that is played becomes a line of ``PAPER/ITEM.jsonl`` there, with all that
            it was made with; by default none is kept but in ``out``.
        watch: is called with how many rounds have been played, how many there are, and of which run; by default nobody
            is.
    """
    if seeds < 1 or jobs < 1:
        raise SettingsError(f"seeds is {seeds} and jobs {jobs}; expected at least 1 of each.")
    file, item = find_item(name)
    if scale not in item.scales:
        raise SettingsError(f"{file.stem} cannot be played at the scale {scale!r}.{nearest(scale, item.scales)}")
    folder = Path(out) if out is not None else Path("runs") / f"{file.stem}-{scale}"
    cells = plan(base_of(item) if item.base else file, item, item.scales[scale], range(seeds), folder)
    rounds = {cell.title: cell.recipe().rounds for cell in cells}
    folder.mkdir(parents=True, exist_ok=True)
    before = load()
    with Locked(folder):
        left = [cell for cell in cells if not is_done(cell)]
        counted = RoundCount(sum(rounds.values()), watch)
        counted.skip(sum(rounds[cell.title] for cell in cells if cell not in left))
        failed = play_all(left, jobs, counted.count)
    if len(failed) == len(cells):
        reasons = "\n".join(f"- {line}" for line in each_reason(failed))
        raise PotluckError(f"Nothing of {file.stem} could be played:\n{reasons}")
    outcome = Reproduction(
        item,
        scale,
        {
            seed: {
                cell.entry.method: read_trial(cell.folder, cell.entry)
                for cell in cells
                if cell.seed == seed and cell.title not in failed
            }
            for seed in range(seeds)
        },
        failed,
    )
    keep(outcome, folder / RESULT)
    if record is not None:
        beside = {"cores": os.cpu_count(), "jobs": jobs, "load before": before, "load after": load()}
        for cell in left:
            if cell.title not in failed:
                found = {measure: _of_seed(outcome, cell, measure) for measure in item.measures}
                trial = outcome.runs[cell.seed][cell.entry.method]
                line = line_of(file.stem, scale, cell, trial, found, beside)
                append(file_of(file.stem, Path(record)), line)
    return outcome


def _of_seed(outcome: Reproduction, cell: Cell, measure: str) -> float | None:
    """What a row reached under the seed of a cell."""
    alone = replace(outcome, runs={cell.seed: outcome.runs[cell.seed]})
    return next(iter(alone.values(cell.entry.method, measure)), None)


def plan(file: Path, item: PaperItem, scale: PaperScale, seeds: range, folder: Path) -> list[Cell]:
    """A run for each row and seed: the file, changed as the row says, and then as the scale says."""
    looking = [f"paper.inspect={json.dumps(item.inspect)}"] if item.base else []  # the file has those of the base
    cells = [
        Cell(
            Entry(row.name),
            seed,
            file,
            (*row.set, *scale.set, *looking),
            folder / "".join(letter if letter.isalnum() else "-" for letter in row.name).lower() / f"seed-{seed}",
        )
        for seed in seeds
        for row in item.rows
    ]
    for cell in cells[: len(item.rows)]:
        cell.recipe()  # every mistake is reported before anything is trained
    return cells


def keep(outcome: Reproduction, path: Path) -> None:
    """Writes what came of it: each row's values, seed by seed, beside what was published."""
    item = outcome.item
    content = {
        "paper": item.paper,
        "item": item.item,
        "scale": outcome.scale,
        "reduced": item.scales[outcome.scale].reduced,
        "seeds": list(outcome.runs),
        "rows": [
            {
                "title": row.name,
                "published": row.published,
                "ours": {measure: outcome.values(row, measure) for measure in item.measures},
            }
            for row in item.rows
        ],
        "failed": dict(outcome.failed),
        "versions": versions(),
        "commit": commit(),
    }
    replace_file(path, json.dumps(content, indent=1) + "\n")
