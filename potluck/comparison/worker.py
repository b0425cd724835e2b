"""A process that plays one cell after the other. It imports Potluck once, and receives cells in lines of JSON.

It is started as a program of its own, not forked and not by ``multiprocessing``, so that the script that compares
needs no guard around what it does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from potluck.comparison.cells import Cell
from potluck.comparison.tuning import Tuning
from potluck.core.processes import ending_with_parent


class Worker:
    """A process that plays cells.

    Args:
        jobs: how many of them share the machine's cores.
    """

    def __init__(self, jobs: int) -> None:
        program = f"from potluck.comparison.worker import work; work({jobs})"
        path = os.pathsep.join(folder for folder in sys.path if folder)
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    @property
    def alive(self) -> bool:
        """Whether it can play another cell."""
        return self._process.poll() is None

    def play(self, cell: Cell | Tuning, notify: Callable[[int], None]) -> str | None:
        """Has a cell played, and returns why it could not be, or None."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(cell.to_json()), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return self._ended()
        for line in self._process.stdout:
            word = json.loads(line)
            if "failed" in word:
                reason: str | None = word["failed"]
                return reason
            notify(word["round"])
        return self._ended()

    def _ended(self) -> str:
        code = self._process.wait()
        how = f"by signal {-code}, as when memory runs out" if code < 0 else f"with exit code {code}"
        return f"its process was ended {how}"

    def stop(self) -> None:
        """Ends it, whatever it is doing: what it was playing goes on from its checkpoint another time."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


def task_of(plain: dict[str, Any]) -> Cell | Tuning:
    """What is to be played, of plain values."""
    return Tuning.from_json(plain) if "rival" in plain else Cell.from_json(plain)


def work(jobs: int) -> None:
    """The life of the process. Ctrl-C is the business of the one that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ending_with_parent(signal.SIGKILL)()
    words = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a user's model prints is no word of ours

    import torch

    from potluck.comparison.cell_queue import attempt
    from potluck.engines import keep_freed_memory

    keep_freed_memory()
    torch.set_num_threads(max(1, torch.get_num_threads() // jobs))
    for line in sys.stdin:
        reason = attempt(
            task_of(json.loads(line)), lambda number: print(f'{{"round": {number}}}', file=words, flush=True)
        )
        print(json.dumps({"failed": reason}), file=words, flush=True)
