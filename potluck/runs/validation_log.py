"""Looks at validation data after each round, and keeps what was reached with the run."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import ClassVar

from potluck.core.errors import SettingsError, nearest
from potluck.core.history import Row
from potluck.core.metrics import Metrics, less_is_better
from potluck.runs.callbacks import Callback, RunningFederation
from potluck.runs.folder import replace_file

VALIDATION = "validation.jsonl"
"""The file of a run folder that holds, round by round, what was reached on validation data."""


class ValidationLog(Callback):
    """Notes the mean over participants on their validation data after each round, and judges the run by it.

    What was reached is kept in the run folder, so that a run that goes on after a break is judged like an unbroken one.

    Args:
        metric: what is looked at; by default the headline.
    """

    FILE: ClassVar[str] = VALIDATION

    def __init__(self, metric: str | None = None) -> None:
        self.metric = metric
        self.values: dict[int, float] = {}
        """Round → the mean on validation data."""
        self.tested: dict[int, float | None] = {}
        """Round → the mean on test data, which decides nothing."""
        self.looks_at = metric or ""
        """What is looked at, by name, as soon as it is known."""
        self.folder: Path | None = None
        """The run folder, where there is one."""

    @abstractmethod
    def judge(self, federation: RunningFederation) -> None:
        """Decides whether the run goes on; called before the first round that is played now, and after each."""

    def noted(self, federation: RunningFederation) -> None:
        """Called when a value was noted, before it is written."""

    def gain(self, value: float, before: float) -> float:
        """How much better a value is than another one."""
        return before - value if less_is_better(self.looks_at) else value - before

    def begin(self, federation: RunningFederation) -> None:
        if all(party.validation is None for party in federation.participants.values()):
            raise SettingsError("There are no validation data to look at; give participants `validation`, such as 0.2.")
        rounds, self.folder = federation.history.rounds, federation.run_dir
        if self.folder is not None:
            self._take_up(self.folder / self.FILE, rounds)
        elif rounds not in self.values:  # of another federation
            self.values, self.tested = {}, {}
        if rounds and rounds not in self.values:  # a break between the round and the look at it
            self._look(federation)
        self.judge(federation)

    def round(self, federation: RunningFederation, rows: list[Row]) -> None:
        self._look(federation)
        self.judge(federation)

    def mean(self, scores: Mapping[str, Metrics]) -> float:
        """The mean over those who have a value."""
        found = [value for metrics in scores.values() if (value := metrics.get(self.looks_at)) is not None]
        if not found:
            known = {name for metrics in scores.values() for name, value in metrics.items() if value is not None}
            wrong = f"Nobody has a value of {self.looks_at!r} on its validation data."
            raise SettingsError(wrong + nearest(self.looks_at, known))
        return fmean(found)

    def _look(self, federation: RunningFederation) -> None:
        """Notes what is reached now."""
        self.looks_at = self.metric or federation.history.headline
        number = federation.history.rounds
        self.values[number] = self.mean(federation.validate())
        final = federation.history.final
        rows = final.rows if final.evaluated else ()
        test = [row[self.looks_at] for row in rows if row.get(self.looks_at) is not None]
        self.tested[number] = fmean(test) if test else None
        self.noted(federation)
        if self.folder is not None:
            with (self.folder / self.FILE).open("a", encoding="utf-8") as file:
                file.write(self._line(number))

    def _take_up(self, path: Path, rounds: int) -> None:
        """Reads what was reached in the rounds that are played already; what came after them is played again."""
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        try:
            entries = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            entries = [line for line in entries if line["round"] <= rounds]
            self.values = {int(line["round"]): float(line["value"]) for line in entries}
            self.tested = {int(line["round"]): line["test"] for line in entries}
            self.looks_at = str(entries[-1]["metric"]) if entries else self.looks_at
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} is not what was written ({error}); start again in a new folder.") from error
        replace_file(path, "".join(map(self._line, self.values)))

    def _line(self, number: int) -> str:
        entry = {
            "round": number,
            "metric": self.looks_at,
            "value": self.values[number],
            "test": self.tested[number],
        }
        return json.dumps(entry) + "\n"
