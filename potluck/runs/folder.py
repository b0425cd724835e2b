"""A run folder: the settings as run, the history, checkpoints and a summary of one federation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import BaseFileLock

from potluck.core.errors import SettingsError
from potluck.core.history import FILE, History, Row
from potluck.core.processes import held_alone
from potluck.runs import checkpoint
from potluck.runs.checkpoint import CheckpointError, Fingerprint, OtherFederationError
from potluck.runs.differences import told_differences
from potluck.runs.history_file import HistoryFile
from potluck.runs.machine import describe_machine

SETTINGS, SUMMARY = "settings.json", "summary.json"


class RunFolder:
    """A folder with everything about one run.

    It holds ``settings.json`` (what was run, with versions and seed, when and on what machine), ``history.jsonl`` (a
    line for each row that was recorded, appended each round), ``checkpoints/`` (the two newest) and ``summary.json``
    (the result, when it was there, and how long that took since the run was started last).

    Args:
        path: the folder; it is made if it does not exist.
        resume: whether it may already hold a run, which is then continued.
    """

    def __init__(self, path: str | os.PathLike[str], *, resume: bool) -> None:
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self._history = HistoryFile(self.path / FILE)
        if self.path.exists() and not self.path.is_dir():
            raise SettingsError(f"{self.path} is a file; expected a folder for the run.")
        if (self.path / SETTINGS).exists() and not resume:
            raise SettingsError(f"{self.path} already holds a run. Resume it, or choose another folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock: BaseFileLock | None = None
        self._when: dict[str, Any] = {}
        self._began = time.monotonic()

    def __enter__(self) -> RunFolder:
        """Locks the folder against other processes."""
        busy = f"{self.path} is being written by another run. Wait for it, or stop it."
        self._lock = held_alone(self.path / ".lock", busy)
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def begin(self, settings: dict[str, Any], fingerprint: Fingerprint) -> tuple[Any, History] | None:
        """Writes the settings, and returns the state and the history to go on from, if there are any.

        The history is checked against the checkpoint. What was written after it will be played again, and is dropped.
        """
        for name in (SETTINGS, FILE, SUMMARY):
            if (self.path / name).is_dir():
                raise CheckpointError(f"{self.path / name} is a folder; expected a file. Start again in a new folder.")
        before = self._settings()
        try:
            found = checkpoint.read_newest(self.checkpoints, fingerprint)
        except OtherFederationError as error:
            what = told_differences(before, settings, error.different)
            raise OtherFederationError(f"{error.text} {what}".strip(), error.different) from None
        round, state = (0, {"history": []}) if found is None else found
        try:
            history = self._history.take_up(state.pop("history"))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"The newest checkpoint in {self.checkpoints} has no readable history.") from error
        if history.rounds != round:
            raise CheckpointError(
                f"The newest checkpoint in {self.checkpoints} is of round {round}, and its history of "
                f"{history.rounds} rounds. Start again in a new folder."
            )
        now = _now()
        self._when = {"started": before.get("started", now)}
        if before:
            self._when["resumed"] = [*before.get("resumed", []), now]
        self._when |= {"machine": describe_machine(), "versions": settings.get("versions")}
        self._write(SETTINGS, {**settings, **self._when})
        self._began = time.monotonic()
        return None if found is None else (state, history)

    def append(self, rows: Iterable[Row]) -> None:
        """Adds the rows of one round."""
        self._history.append(rows)

    def save(self, round: int, state: Mapping[str, Any], fingerprint: Fingerprint) -> None:
        """Adds a checkpoint, which knows what the history is so far."""
        checkpoint.write(self.checkpoints, round, {**state, "history": self._history.marks}, fingerprint)

    def finish(self, history: History, about: Mapping[str, Any]) -> None:
        """Writes how the run stands, and what else there is to say about it."""
        (up, down), final, best = history.bytes(), history.final, history.best
        summary = {
            "rounds": history.rounds,
            "headline": final.metric,
            final.metric: final.score,
            "worst": final.worst,
            "participants": {row["participant"]: row.get(final.metric) for row in final.rows},
            **({"models": [_model(row, final.metric) for row in final.models]} if final.models else {}),
            "bytes_up": up,
            "bytes_down": down,
            "seconds": history.seconds,
            "best_chosen_on_test": {"round": best.round, best.metric: best.score},
            **self._when,
            "ended": _now(),
            "wall_seconds": round(time.monotonic() - self._began, 3),
            **{name: content for name, content in about.items() if content},
        }
        self._write(SUMMARY, summary)

    def _settings(self) -> dict[str, Any]:
        """The settings that are there: empty for a run that begins, or where nobody can read them any more."""
        try:
            found = json.loads((self.path / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, content: Any) -> None:
        replace_file(self.path / name, json.dumps(content, indent=1, default=str) + "\n")


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def replace_file(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    draft = path.with_name(f".{path.name}.unfinished")
    draft.write_text(text, encoding="utf-8")
    checkpoint.sync(draft)
    draft.replace(path)


def _model(row: Row, metric: str) -> dict[str, Any]:
    """What a summary says of a model that is reported beside the participants."""
    return {name: row.get(name) for name in ("participant", "model", metric)}
