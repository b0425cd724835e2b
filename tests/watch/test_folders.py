"""What can be watched, and what to do where nothing can."""

from __future__ import annotations

import pytest

from potluck.core.errors import DataError
from potluck.watch.comparison_view import ComparisonWatcher
from potluck.watch.folders import watcher_of
from potluck.watch.run_view import RunWatcher
from tests.watch.folders import row, write_run


def test_a_run_a_comparison_and_a_federation_that_is_served(tmp_path):
    assert isinstance(watcher_of(write_run(tmp_path / "run", row(1, "a"))), RunWatcher)
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared/comparison.json").write_text("{}")
    assert isinstance(watcher_of(tmp_path / "compared"), ComparisonWatcher)
    (tmp_path / "served/flower").mkdir(parents=True)
    (tmp_path / "served/flower/progress.log").touch()
    assert isinstance(watcher_of(tmp_path / "served"), RunWatcher)


def test_a_folder_of_runs_is_told_apart(tmp_path):
    for number in range(7):
        write_run(tmp_path / f"run{number}", row(1, "a"))
    with pytest.raises(DataError, match=r"holds several runs; name one of them: .*run0, .*run4 and others"):
        watcher_of(tmp_path)


def test_what_is_no_run(tmp_path):
    with pytest.raises(DataError, match="There is no run in"):
        watcher_of(tmp_path)
    with pytest.raises(DataError, match="There is no folder"):
        watcher_of(tmp_path / "gone")
