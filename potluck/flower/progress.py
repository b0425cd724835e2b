"""How a run and the command that started it speak to each other: through files, since Flower starts the run."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

log = logging.getLogger("potluck.federation.server")

TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
"""How a line begins: local time."""


class ProgressLog:
    """What happens in a run, line by line with the time; how it ended; and whether it is asked to stop.

    Args:
        path: a file for the lines, beside which the rest is kept; None for the log alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._end = None if path is None else path.with_suffix(".end")
        self._stop = None if path is None else path.with_suffix(".stop")
        self._read = 0

    def clear(self) -> None:
        """Deletes what an earlier run has left."""
        for path in (self._path, self._end, self._stop):
            if path is not None:
                path.unlink(missing_ok=True)

    def report(self, line: str) -> None:
        """Adds a line, with the time."""
        log.info("%s", line)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{time.strftime(TIME_FORMAT)} " + line.replace("\n", "\n  ") + "\n")

    def new_lines(self) -> list[str]:
        """The lines that came since they were read last."""
        if self._path is None or not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        return whole.decode().splitlines()

    def finish(self, error: str) -> None:
        """How the run ended: with an error, or with an empty text."""
        if self._end is not None:
            draft = self._end.with_suffix(".draft")
            draft.write_text(json.dumps({"error": error}))
            draft.replace(self._end)

    def outcome(self) -> str | None:
        """What ``finish`` was given, if the run has ended."""
        if self._end is None or not self._end.exists():
            return None
        return str(json.loads(self._end.read_text())["error"])

    def ask_to_stop(self) -> None:
        """Has the run stop after what it is doing."""
        if self._stop is not None:
            self._stop.touch()

    def stop_requested(self) -> bool:
        """Whether somebody asked the run to stop."""
        return self._stop is not None and self._stop.exists()
