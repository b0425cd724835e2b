"""Which folders can be watched, and what reads them."""

from __future__ import annotations

from pathlib import Path

from potluck.core.errors import DataError
from potluck.report.folders import COMPARISON
from potluck.runs.folder import SETTINGS
from potluck.runs.live import LIVE
from potluck.watch.comparison_view import ComparisonWatcher
from potluck.watch.run_view import SERVED, RunWatcher

NAMED = 5


def watcher_of(folder: Path) -> RunWatcher | ComparisonWatcher:
    """What reads the run or the comparison in a folder."""
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}; expected one that `potluck run`, `compare` or `serve` writes.")
    if (folder / COMPARISON).is_file():
        return ComparisonWatcher(folder)
    if any((folder / name).exists() for name in (SETTINGS, LIVE, SERVED)):
        return RunWatcher(folder)
    inside = sorted({path.parent for name in (COMPARISON, LIVE, SETTINGS) for path in folder.glob(f"*/{name}")})
    if not inside:
        raise DataError(f"There is no run in {folder}; expected a folder that `potluck run` or `compare` writes.")
    names = ", ".join(str(path) for path in inside[:NAMED]) + (" and others" if len(inside) > NAMED else "")
    raise DataError(f"{folder} holds several runs; name one of them: {names}.")
