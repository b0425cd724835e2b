"""Callbacks: notified of a run when it begins, after each round and when it ends; any of them may end it early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from potluck.core.errors import SettingsError
from potluck.core.history import History, Row
from potluck.core.metrics import Metrics


class RunningFederation(Protocol):
    """What a callback may ask of the federation that runs."""

    history: History
    run_dir: Path | None
    last_round: int

    @property
    def participants(self) -> Mapping[str, Any]:
        """Who takes part, by name."""

    def validate(self) -> dict[str, Metrics]:
        """Everybody's metrics on its validation data, as the models are now; of those who have some."""

    def settings(self) -> dict[str, Any]:
        """The settings as run, as ``settings.json`` holds them."""

    def stop(self, why: str) -> None:
        """Has no further round played."""

    def keep_copy(self, folder: Path) -> None:
        """Writes the run as it stands now to a folder of its own, from where it can go on."""


class Callback:
    """Is notified of a run. Override what is of interest; an error in it ends the run.

    A plain function of (federation, rows) is called after each round, too.
    """

    def begin(self, federation: RunningFederation) -> None:
        """Before the first round that is played now; of a run that goes on, ``federation.history`` has the others."""

    def round(self, federation: RunningFederation, rows: list[Row]) -> None:
        """After each round, when it is stored.

        Args:
            federation: the federation that runs.
            rows: how everybody stands after the round, as the history has it.
        """

    def summary(self) -> Mapping[str, Any]:
        """What the run's ``summary.json`` is to hold of it; asked before ``end``."""
        return {}

    def end(self, federation: RunningFederation, error: BaseException | None) -> None:
        """When no round is played any more.

        Args:
            federation: the federation that ran.
            error: what ended the run, as KeyboardInterrupt; None where it came to its end.
        """


RoundFunction = Callable[[Any, list[Row]], object]
"""Is called after each round with the federation and the round's rows."""


class Callbacks:
    """The callbacks of a run, told one after the other.

    Args:
        callbacks: objects of ``Callback``, or functions that are called after rounds alone.
    """

    def __init__(self, callbacks: Iterable[Callback | RoundFunction]) -> None:
        given = list(callbacks)
        for callback in given:
            if isinstance(callback, type) or not (isinstance(callback, Callback) or callable(callback)):
                raise SettingsError(
                    f"callbacks holds {callback!r}; expected an object such as potluck.EarlyStopping(patience=3), or a "
                    f"function of (federation, rows)."
                )
        self._objects = [callback for callback in given if isinstance(callback, Callback)]
        self.after_round: list[RoundFunction] = [
            callback.round if isinstance(callback, Callback) else callback for callback in given
        ]
        """Each is called after each round, in the order given."""

    def begin(self, federation: RunningFederation) -> None:
        """Tells all that the run begins."""
        for callback in self._objects:
            callback.begin(federation)

    def summary(self) -> dict[str, Any]:
        """What all have to say for the summary."""
        return {name: content for callback in self._objects for name, content in callback.summary().items()}

    def end(self, federation: RunningFederation, error: BaseException | None) -> None:
        """Tells all that the run has ended."""
        for callback in self._objects:
            callback.end(federation, error)
