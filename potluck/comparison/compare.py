"""``potluck.compare``: plays several methods on the same federations, and says which is better by how much."""

from __future__ import annotations

import json
import logging
import os
import platform
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from potluck.comparison.cell_queue import each_reason, play_all
from potluck.comparison.cells import Cell, changes_by_owner, named, plan_cells
from potluck.comparison.play import is_done
from potluck.comparison.tuning import Tuning, plan_tunings
from potluck.core.duration import Pace
from potluck.core.errors import PotluckError, SettingsError
from potluck.recipes import read
from potluck.report.folders import COMPARISON, read_standings
from potluck.report.page import PAGE, write_report
from potluck.report.significance import Significance
from potluck.report.standings import Standings
from potluck.report.summary_table import summary_text
from potluck.runs.folder import replace_file
from potluck.runs.live import LIVE, LiveFile
from potluck.runs.provenance import commit

log = logging.getLogger(__name__)

Watcher = Callable[[int, int, str], None]
"""Is called with how many rounds of all cells have been played, how many there are, and of which cell the newest is."""


class Comparison:
    """What came of a comparison, read from its folder.

    Args:
        folder: what ``compare`` wrote.
        metric: what to compare by; by default as the comparison says.
        target: a value of the metric to reach; by default as the comparison says.
    """

    def __init__(self, folder: str | os.PathLike[str], metric: str | None = None, target: float | None = None) -> None:
        self.folder = Path(folder)
        self.standings: Standings = read_standings([self.folder], metric, target)

    def table(self) -> str:
        """What each method reached, at what cost, and which differences are real."""
        return summary_text(self.standings)

    def frame(self) -> Any:
        """A pandas data frame: a row for each method, setting, seed and participant, as after the last round."""
        return self.standings.frame()

    def significance(self) -> Significance:
        """Which differences are real."""
        return self.standings.significance()

    def report(self, path: str | os.PathLike[str] | None = None, figures: str | os.PathLike[str] | None = None) -> Path:
        """Writes a page that needs no other file, and returns where it is.

        Args:
            path: where it goes; by default ``report.html`` in the comparison's folder.
            figures: a folder for figures and tables as files; by default there are none.
        """
        page = self.folder / PAGE if path is None else Path(path)
        write_report(self.standings, page, None if figures is None else Path(figures))
        return page

    def __repr__(self) -> str:
        return f"Comparison({str(self.folder)!r}: {', '.join(entry.label for entry in self.standings.entries)})"


def compare(
    methods: Sequence[str],
    federation: str | os.PathLike[str],
    *,
    seeds: int = 5,
    sweep: Iterable[str] = (),
    tune: int | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    target: float | None = None,
    metric: str | None = None,
    pooled: bool = False,
    cross: bool = False,
    changes: Iterable[str] = (),
    options: Iterable[tuple[str, Any]] = (),
    watch: Watcher | None = None,
) -> Comparison:
    """Plays methods on the same federations, seed by seed, and returns what came of it.

    All methods of a seed get the same splits, first weights and participants. Local is always played. Each run has a
    folder of its own; what is there already is not played again, so a comparison that was stopped goes on when it is
    asked for again.

    Args:
        methods: their names; the run file's own one has the settings of the file, the others their defaults.
        federation: a run file.
        seeds: how many seeds, from the file's on; by default 5.
        sweep: settings to try, each as ``"KEY=a,b,c"``; by default none.
        tune: how many settings of each method Optuna tries, of those that ``sweep`` names, which may then be ranges,
            ``"KEY=low..high"``; by default all values of ``sweep`` are tried.
        out: the folder; by default ``runs/compare-FILE``.
        jobs: how many runs at a time; by default 1. From a script, with more than one, call it under
            ``if __name__ == "__main__":``, as all that starts processes in Python.
        target: a value of the metric to reach; by default none.
        metric: what to compare by; by default the task's headline, such as the accuracy.
        pooled: whether to play the ceiling too: each model trained on everybody's data; by default False.
        cross: whether to measure each model on everybody's test data; by default False.
        changes: settings of the file to change, each as ``"key=value"``, or of one method, as ``"CoFED.alpha=0.3"``; by
            default none.
        options: settings that stand above the file, such as ``("rounds", 3)``; by default none.
        watch: is called with each round that was played; by default nobody is.
    """
    if seeds < 1 or jobs < 1 or (tune is not None and tune < 1):
        found = f"seeds is {seeds} and jobs {jobs}" + (f" and tune {tune}" if tune is not None else "")
        raise SettingsError(f"{found}; expected at least 1 of each.")
    file = Path(federation)
    folder = Path(out) if out is not None else Path("runs") / f"compare-{file.stem}"
    changes, options, sweep = tuple(changes), tuple(options), tuple(sweep)
    recipe = read(file, changes_by_owner(changes, named(methods))[0], dict(options))
    numbers = range(recipe.seed, recipe.seed + seeds)
    tried: dict[str, Any] = {"sweeps": sweep, "changes": changes, "options": options, "pooled": pooled}
    plan = partial(plan_cells, file, methods, numbers, folder, **tried, cross=cross)
    tunings = plan_tunings(file, methods, tune, recipe.seed, folder, metric=metric, **tried) if tune is not None else []
    cells = [] if tunings else plan()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The comparison cannot be stored in {folder}: {error.strerror}.") from error
    about = {
        "format": 1,
        "metric": metric,
        "target": target,
        "seeds": list(numbers),
        "rounds": recipe.rounds,
        "command": command(methods, file, seeds, sweep, tune, target, metric, pooled, cross, changes, options),
        "file": file.name,
        "text": file.read_text(encoding="utf-8"),
        "versions": versions(),
        "commit": commit(),
        "tuning": [tuning.listed(folder) for tuning in tunings],
        "cells": _listed(cells, folder),
    }
    with Locked(folder), LiveFile(folder / LIVE) as live:
        _keep(about, folder)
        runs = len(cells) + sum(tuning.trials + seeds for tuning in tunings)
        rounds = RoundCount(runs * recipe.rounds, watch)
        live.begin(rounds.in_all, 0)
        failed = play_all(tunings, jobs, rounds.count)
        if tunings:
            cells = plan(chosen={tuning.method: tuning.chosen() for tuning in tunings if tuning.title not in failed})
            about |= {"tuning": [each.listed(folder) for each in tunings], "cells": _listed(cells, folder)}
            _keep(about, folder)
        left = [cell for cell in cells if not is_done(cell)]
        rounds.skip((len(cells) - len(left)) * recipe.rounds)
        failed |= play_all(left, jobs, rounds.count)
        _keep({**about, "failed": failed}, folder)
    if len(failed) >= len(cells):
        reasons = "\n".join(f"- {line}" for line in each_reason(failed))
        raise PotluckError(f"No run of the comparison could be played:\n{reasons}")
    return Comparison(folder)


class RoundCount:
    """How many rounds of all have been played.

    Args:
        in_all: how many there are.
        watch: is told of each; None for nobody.
    """

    def __init__(self, in_all: int, watch: Watcher | None) -> None:
        self.in_all, self._watch = in_all, watch
        self._before, self._played, self._pace = 0, dict[str, int](), Pace()
        self._pace.seconds_left(0, in_all)

    def skip(self, rounds: int) -> None:
        """Those were played before: they tell nothing about the time that is left."""
        self._before += rounds
        self._tell("")

    def count(self, task: Cell | Tuning, number: int) -> None:
        """So many of a task have been played."""
        new = self._played.get(task.title) != number
        self._played[task.title] = number
        self._tell(task.title, new)

    def _tell(self, title: str, new: bool = False) -> None:
        played = sum(self._played.values())
        if new:
            left = self._pace.in_words(played, self.in_all - self._before)
            log.info("%d of %d rounds of all runs; now %s%s", self._before + played, self.in_all, title, left)
        if self._watch is not None:
            self._watch(self._before + played, self.in_all, title)


def _keep(about: Mapping[str, Any], folder: Path) -> None:
    replace_file(folder / COMPARISON, json.dumps(about, indent=1) + "\n")


def _listed(cells: Iterable[Cell], folder: Path) -> list[dict[str, Any]]:
    """The cells, as a comparison's file tells them."""
    return [
        {
            "method": cell.entry.method,
            "settings": cell.entry.settings,
            "seed": cell.seed,
            "folder": str(cell.folder.relative_to(folder)),
        }
        for cell in cells
    ]


def versions() -> dict[str, str]:
    """What it was made with."""
    packages = ("potluck-fl", "torch", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version(), **{package: version(package) for package in packages}}


def command(
    methods: Sequence[str],
    file: Path,
    seeds: int,
    sweep: Sequence[str],
    tune: int | None,
    target: float | None,
    metric: str | None,
    pooled: bool,
    cross: bool,
    changes: Sequence[str],
    options: Sequence[tuple[str, Any]],
) -> str:
    """The command that repeats a comparison."""
    parts = ["potluck", "compare", *methods, "--federation", str(file), "--seeds", str(seeds)]
    parts += [part for text in sweep for part in ("--sweep", text)]
    parts += ["--tune", str(tune)] if tune is not None else []
    parts += [part for text in changes for part in ("--set", text)]
    parts += [part for key, value in options for part in (f"--{key}", str(value))]
    parts += ["--target", str(target)] if target is not None else []
    parts += ["--metric", metric] if metric is not None else []
    return shlex.join(parts + ["--pooled"] * pooled + ["--cross"] * cross)


class Locked:
    """Keeps two processes from writing one folder.

    Args:
        folder: what is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, FileLock(folder / ".lock")

    def __enter__(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise SettingsError(f"{self._folder} is being written by another comparison. Wait for it.") from error

    def __exit__(self, *_: object) -> None:
        self._lock.release()
