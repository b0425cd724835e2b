"""Who is notified of a run, in a file: the tables ``[track]`` and ``[early_stopping]``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict

from potluck.core.errors import PotluckError
from potluck.core.settings import Mistake
from potluck.recipes.references import Named, wrong_settings
from potluck.recipes.validation import Section, refuse
from potluck.runs.early_stopping import EarlyStopping
from potluck.runs.trackers import TRACKERS, Tracker

TrackerTable = dict[str, dict[str, Any]]
"""Tracker → its settings."""


class EarlyStoppingSection(Section):
    """When a run ends before its last round: as ``potluck.EarlyStopping``.

    Args:
        patience: after how many rounds without progress on validation data the run ends, or "never"; by default 5.
        metric: what is looked at; by default the headline.
        min_delta: how much better a round must be to count as progress; by default 0.
        keep_best: whether the run as it stood after the best round is kept beside the last; by default true.
    """

    model_config = ConfigDict(title="early_stopping")

    patience: Annotated[int, Strict(), Field(ge=1)] | Literal["never"] = 5
    metric: str | None = None
    min_delta: float = Field(0.0, ge=0)
    keep_best: bool = True

    def build(self) -> EarlyStopping:
        """The callback."""
        patience = None if self.patience == "never" else self.patience
        return EarlyStopping(patience, self.metric, self.min_delta, self.keep_best)


def _switches(given: Any) -> Any:
    """``name = true`` is a tracker without settings, ``name = false`` is none."""
    if not isinstance(given, dict):
        raise ValueError(f"track = {given!r}; expected a table, such as tensorboard = true.")
    return {name: {} if settings is True else settings for name, settings in given.items() if settings is not False}


def _trackers_fit(table: TrackerTable) -> TrackerTable:
    """Makes sure that there are such trackers, that they take these settings, and that their libraries are here."""
    wrong: list[Mistake] = []
    for name, settings in table.items():
        try:
            kind = TRACKERS[name]
            if not (isinstance(kind, type) and issubclass(kind, Tracker)):
                raise PotluckError(f"{name!r} is no tracker; expected a subclass of potluck.runs.trackers.Tracker.")
            mistakes = wrong_settings(TRACKERS.__getitem__, (), Named(name=name, settings=settings))
            wrong += [((name, *place), text) for place, text in mistakes]
            if not mistakes:
                kind(**settings)
        except PotluckError as error:
            wrong.append(((name,), str(error)))
    if wrong:
        refuse(wrong)
    return table


TrackSection = Annotated[TrackerTable, BeforeValidator(_switches), AfterValidator(_trackers_fit)]
"""Which trackers are notified of the run: name → settings, or true."""


def trackers_of(table: TrackerTable) -> list[Tracker]:
    """The trackers of a table, ready to be notified of a run."""
    return [TRACKERS[name](**settings) for name, settings in table.items()]
