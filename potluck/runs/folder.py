"""A run folder: the settings as run, the history, checkpoints and a summary of one federation."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from potluck.core.errors import SettingsError
from potluck.core.history import History, Row
from potluck.runs import checkpoint
from potluck.runs.checkpoint import CheckpointError, Fingerprint


class RunFolder:
    """Where one run is kept.

    ``settings.json``: what was run, with versions and seed. ``history.jsonl``: a line for each round and participant,
    appended each round. ``checkpoints/``: the two newest. ``summary.json``: how it ended.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self._history = self.path / "history.jsonl"
        if self.path.exists() and not self.path.is_dir():
            raise SettingsError(f"{self.path} is a file; expected a folder for the run.")
        if (self.path / "settings.json").exists() and not resume:
            raise SettingsError(f"{self.path} already holds a run. Resume it, or choose another folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.path / ".lock")

    def __enter__(self) -> RunFolder:
        """Makes sure that nobody else writes here."""
        try:
            self._lock.acquire(timeout=0)
        except Timeout as error:
            raise SettingsError(f"{self.path} is being written by another run. Wait for it, or stop it.") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def begin(self, settings: dict[str, Any], fingerprint: Fingerprint) -> tuple[int, Any] | None:
        """Writes the settings, and returns the round and state to go on from, if there are any."""
        found = checkpoint.read_newest(self.checkpoints, fingerprint)
        self._write("settings.json", settings)
        return found

    def history(self, rounds: int) -> History:
        """The history up to a round. What was written after it will be played again, and is dropped."""
        rows: list[Row] = []
        if self._history.exists():
            for line in self._history.read_text().splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    break  # the line that was being written when the run was cut off
                if row["round"] <= rounds:
                    rows.append(row)
        history = History(rows)
        if history.rounds != rounds:
            raise CheckpointError(
                f"{self._history} ends at round {history.rounds}, the checkpoint is of round {rounds}: "
                f"lines are missing. Start again in a new folder."
            )
        self._replace("history.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return history

    def append(self, rows: list[Row]) -> None:
        """Adds the rows of one round."""
        with self._history.open("a") as file:
            file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
            file.flush()
            os.fsync(file.fileno())

    def save(self, round: int, state: Any, fingerprint: Fingerprint) -> None:
        """Adds a checkpoint."""
        checkpoint.write(self.checkpoints, round, state, fingerprint)

    def finish(self, history: History, about: Mapping[str, Any]) -> None:
        """Writes how the run stands, and what else there is to say about it."""
        up, down = history.bytes()
        summary = {
            "rounds": history.rounds,
            "accuracy": history.final.accuracy,
            "worst": history.final.worst,
            "participants": {row["participant"]: row["accuracy"] for row in history.final.rows},
            "bytes_up": up,
            "bytes_down": down,
            "seconds": sum(row["seconds"] for row in history.rows()),
            "best_chosen_on_test": {"round": history.best.round, "accuracy": history.best.accuracy},
            **{name: content for name, content in about.items() if content},
        }
        self._write("summary.json", summary)

    def _write(self, name: str, content: Any) -> None:
        self._replace(name, json.dumps(content, indent=1, default=str) + "\n")

    def _replace(self, name: str, text: str) -> None:
        """Writes a file whole or not at all."""
        draft = self.path / f".{name}.unfinished"
        draft.write_text(text)
        checkpoint.sync(draft)
        draft.replace(self.path / name)
