"""Plays many cells, or tunes, in this process or in several of their own. One task that fails stops no other."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Any

from potluck.comparison.cells import Cell
from potluck.comparison.play import play
from potluck.comparison.tuning import Tuning, tune
from potluck.core.errors import PotluckError

Playable = Cell | Tuning
"""What is played: one run, or the search for a method's settings."""
RoundWatcher = Callable[[Any, int], None]
"""Is called with a task and how many rounds of it have been played."""
ERROR = "error.txt"
"""The file of a cell's folder that says where a bug showed."""


def play_all(cells: Iterable[Playable], jobs: int, watch: RoundWatcher) -> dict[str, str]:
    """Plays tasks, and returns the reasons of those that failed, by their titles.

    Args:
        cells: what is to be played.
        jobs: how many at a time; one is played in this process, more of them in processes of their own.
        watch: is called with each round that was played.
    """
    listed = list(cells)
    if jobs > 1 and len(listed) > 1:
        reasons = _play_in_processes(listed, jobs, watch)
    else:
        reasons = [attempt(cell, partial(watch, cell)) for cell in listed]
    return {cell.title: reason for cell, reason in zip(listed, reasons, strict=True) if reason is not None}


def each_reason(failed: Mapping[str, str]) -> list[str]:
    """Each reason once, behind the titles of all cells that it concerns."""
    titles: dict[str, list[str]] = {}
    for title, reason in failed.items():
        titles.setdefault(reason, []).append(title)
    return [f"{'; '.join(concerned)}: {reason}" for reason, concerned in titles.items()]


def attempt(cell: Playable, notify: Callable[[int], None]) -> str | None:
    """Plays a task. Returns why it could not be played, or None; a bug's traceback is kept in its folder."""
    error_file = cell.folder / ERROR
    try:
        error_file.unlink(missing_ok=True)
        tune(cell, notify) if isinstance(cell, Tuning) else play(cell, notify)
    except PotluckError as error:
        return str(error)
    except Exception as error:
        cell.folder.mkdir(parents=True, exist_ok=True)
        error_file.write_text(traceback.format_exc(), encoding="utf-8")
        return f"{type(error).__name__}: {error} (where it happened is in {error_file})"
    return None


def _play_in_processes(cells: list[Playable], jobs: int, watch: RoundWatcher) -> list[str | None]:
    """Plays cells in as many workers as there are jobs; a worker that ended is replaced."""
    from potluck.comparison.worker import Worker

    idle: SimpleQueue[Worker] = SimpleQueue()
    started: list[Worker] = []
    one_at_a_time = Lock()

    def tell(cell: Playable, number: int) -> None:
        with one_at_a_time:
            watch(cell, number)

    def play_one(cell: Playable) -> str | None:
        try:
            worker = idle.get_nowait()
        except Empty:
            worker = Worker(jobs)
            started.append(worker)
        reason = worker.play(cell, partial(tell, cell))
        if worker.alive:
            idle.put(worker)
        return reason

    pool = ThreadPoolExecutor(jobs)
    try:
        return list(pool.map(play_one, cells))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in started:
            worker.stop()
