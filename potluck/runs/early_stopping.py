"""Ends a run when validation data show no more progress, and keeps the best round by them beside the last."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from potluck.core.errors import SettingsError
from potluck.core.metrics import less_is_better
from potluck.core.settings import check_count
from potluck.runs.callbacks import RunningFederation
from potluck.runs.validation_log import ValidationLog

BEST = "best"
"""The folder in a run folder that holds the run as it stood after the best round."""


class EarlyStopping(ValidationLog):
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
        super().__init__(metric)
        self.patience, self.min_delta, self.keep_best = patience, min_delta, keep_best

    @property
    def best(self) -> int | None:
        """The round of the best value so far: the first of those that are alike; None before the first."""
        best: int | None = None
        for number, value in self.values.items():
            if best is None or self.gain(value, self.values[best]) > self.min_delta:
                best = number
        return best

    def noted(self, federation: RunningFederation) -> None:
        if self.keep_best and self.folder is not None and self.best == federation.history.rounds:
            _replace_folder(federation, self.folder / BEST)

    def judge(self, federation: RunningFederation) -> None:
        best = self.best
        if best is None or self.patience is None or federation.history.rounds - best < self.patience:
            return
        moved = "fallen" if less_is_better(self.looks_at) else "grown"
        federation.stop(f"{self.looks_at} on validation data has not {moved} since round {best}")

    def summary(self) -> Mapping[str, Any]:
        best = self.best
        if best is None:
            return {}
        kept = {"folder": BEST} if self.keep_best and self.folder is not None else {}
        chosen = {"round": best, "metric": self.looks_at, "validation": self.values[best], "test": self.tested[best]}
        return {"best_by_validation": {**chosen, **kept}}


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
