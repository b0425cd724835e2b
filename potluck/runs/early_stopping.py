"""Ends a run when validation data show no more progress, and keeps the best round by them beside the last."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from potluck.core.errors import SettingsError, nearest
from potluck.core.history import Row
from potluck.core.metrics import Metrics, less_is_better
from potluck.core.settings import check_count
from potluck.runs.callbacks import Callback, RunningFederation
from potluck.runs.folder import replace_file

VALIDATION = "validation.jsonl"
"""The file of a run folder that holds, round by round, what was reached on validation data."""
BEST = "best"
"""The folder in a run folder that holds the run as it stood after the best round."""


class EarlyStopping(Callback):
    """Ends a run when the mean over participants on their validation data has not grown for some rounds.

    Test data decide nothing. What was reached is kept in the run folder, so that a run that goes on after a break
    ends in the same round as an unbroken one.

    Args:
        patience: after how many rounds without progress the run ends; None for never, only to keep the best. By
            default 5.
        metric: what is looked at; by default the headline.
        min_delta: how much better a round must be to count as progress; by default 0.
        keep_best: whether the run as it stood after the best round is kept in the folder ``best`` of the run's; by
            default True.
    """

    def __init__(
        self,
        patience: int | None = 5,
        metric: str | None = None,
        min_delta: float = 0.0,
        keep_best: bool = True,
    ) -> None:
        check_count("patience", patience, "rounds", least=1, optional=True)
        if isinstance(min_delta, bool) or not isinstance(min_delta, int | float) or not 0 <= min_delta < float("inf"):
            raise SettingsError(f"min_delta is {min_delta!r}; expected a number from 0 on.")
        self.patience, self.metric, self.min_delta, self.keep_best = patience, metric, min_delta, keep_best
        self.values: dict[int, float] = {}
        """Round → the mean on validation data."""
        self._test: dict[int, float | None] = {}
        self._name = metric or ""
        self._folder: Path | None = None

    @property
    def best(self) -> int | None:
        """The round of the best value so far: the first of those that are alike; None before the first."""
        best: int | None = None
        for number, value in self.values.items():
            if best is None or self._gain(value, self.values[best]) > self.min_delta:
                best = number
        return best

    def _gain(self, value: float, before: float) -> float:
        return before - value if less_is_better(self._name) else value - before

    def begin(self, federation: RunningFederation) -> None:
        if all(party.validation is None for party in federation.participants.values()):
            raise SettingsError("There are no validation data to stop by; give participants `validation`, such as 0.2.")
        rounds, self._folder = federation.history.rounds, federation.run_dir
        if self._folder is not None:
            self._take_up(self._folder / VALIDATION, rounds)
        elif rounds not in self.values:  # of another federation
            self.values, self._test = {}, {}
        if rounds and rounds not in self.values:  # a break between the round and the look at it
            self._look(federation)
        self._decide(federation)

    def _take_up(self, path: Path, rounds: int) -> None:
        """Reads what was reached in the rounds that are played already; what came after them is played again."""
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        try:
            told = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            told = [line for line in told if line["round"] <= rounds]
            self.values = {int(line["round"]): float(line["value"]) for line in told}
            self._test = {int(line["round"]): line["test"] for line in told}
            self._name = str(told[-1]["metric"]) if told else self._name
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(f"{path} is not what was written ({error}); start again in a new folder.") from error
        replace_file(path, "".join(map(self._line, self.values)))

    def round(self, federation: RunningFederation, rows: list[Row]) -> None:
        self._look(federation)
        self._decide(federation)

    def _look(self, federation: RunningFederation) -> None:
        """Notes what is reached now, and keeps the run if nothing was as good before."""
        self._name = self.metric or federation.history.headline
        number = federation.history.rounds
        self.values[number] = self._mean(federation.validate())
        test = [row[self._name] for row in federation.history.final.rows if row.get(self._name) is not None]
        self._test[number] = fmean(test) if test else None
        if self._folder is None:
            return
        if self.best == number and self.keep_best:
            _replace_folder(federation, self._folder / BEST)
        with (self._folder / VALIDATION).open("a", encoding="utf-8") as file:
            file.write(self._line(number))

    def _mean(self, scores: Mapping[str, Metrics]) -> float:
        found = [value for metrics in scores.values() if (value := metrics.get(self._name)) is not None]
        if not found:
            known = {name for metrics in scores.values() for name, value in metrics.items() if value is not None}
            wrong = f"Nobody has a value of {self._name!r} on its validation data."
            raise SettingsError(wrong + nearest(self._name, known))
        return fmean(found)

    def _decide(self, federation: RunningFederation) -> None:
        best = self.best
        if best is None or self.patience is None or federation.history.rounds - best < self.patience:
            return
        moved = "fallen" if less_is_better(self._name) else "grown"
        federation.stop(f"{self._name} on validation data has not {moved} since round {best}")

    def _line(self, number: int) -> str:
        told = {"round": number, "metric": self._name, "value": self.values[number], "test": self._test[number]}
        return json.dumps(told) + "\n"

    def summary(self) -> Mapping[str, Any]:
        best = self.best
        if best is None:
            return {}
        kept = {"folder": BEST} if self.keep_best and self._folder is not None else {}
        told = {"round": best, "metric": self._name, "validation": self.values[best], "test": self._test[best]}
        return {"best_by_validation": {**told, **kept}}


def _replace_folder(federation: RunningFederation, folder: Path) -> None:
    """Puts the run as it stands now where the best one so far was: whole, or not at all."""
    draft, old = (folder.with_name(f".{folder.name}.{kind}") for kind in ("unfinished", "old"))
    for leftover in (draft, old):
        shutil.rmtree(leftover, ignore_errors=True)
    federation.keep_copy(draft)
    if folder.exists():
        folder.rename(old)
    draft.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
