"""What all trackers share: which values of a run they receive; a tracker that fails ends nothing."""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from potluck.core.errors import PotluckError, SettingsError, how_to_install
from potluck.core.history import IDLE, Row
from potluck.core.metrics import less_is_better
from potluck.runs.callbacks import Callback, RunningFederation

log = logging.getLogger(__name__)

LONG = ("participants", "decisions")
"""What of a run's settings is no setting of an experiment: an entry for each participant, what engines choose."""
ARTIFACTS = ("settings.json", "history.jsonl", "summary.json", "validation.jsonl")
"""The files of a run folder that are kept with a run elsewhere."""

RoundValues = Mapping[str, float]
"""What is reported of a round, by name."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker receives when a run begins.

    Args:
        name: what it is called.
        settings: key → value, with dots between the parts of a key.
        folder: its run folder; None where nothing is stored.
        played: how many rounds were played before.
    """

    name: str
    settings: Mapping[str, Any]
    folder: Path | None
    played: int


class Tracker(Callback):
    """Sends what happens in a run elsewhere. An error is reported once, and the run goes on without it.

    Args:
        name: what the run is called there; by default its method and seed.
        participants: whether each participant's metrics are recorded, too; by default only their mean and the worst.
    """

    NEEDS: ClassVar[tuple[str, ...]] = ()
    """The modules it needs; the extra that brings them has the name of the first."""

    def __init__(self, name: str | None = None, participants: bool = False) -> None:
        if missing := [module for module in self.NEEDS if find_spec(module) is None]:
            needed = f"{type(self).__name__} needs {' and '.join(missing)}, not installed here"
            raise PotluckError(f"{needed}: {how_to_install(self.NEEDS[0])}")
        self.name, self.participants = name, participants
        self._failed = ""

    @abstractmethod
    def open(self, run: TrackedRun) -> None:
        """The run begins, or goes on. An error here is a mistake in the settings, or a place that is not there."""

    @abstractmethod
    def write(self, round: int, values: RoundValues) -> None:
        """A round has been played."""

    @abstractmethod
    def close(self, artifacts: list[Path], error: BaseException | None) -> None:
        """The run has ended: these files are what it left."""

    def begin(self, federation: RunningFederation) -> None:
        settings, self._failed = federation.settings(), ""
        name = self.name or f"{settings['method']['name']}, seed {settings['seed']}"
        short = dict(_flat({key: value for key, value in settings.items() if key not in LONG}))
        run = TrackedRun(name, short, federation.run_dir, federation.history.rounds)
        self._try(lambda: self.open(run), federation)

    def round(self, federation: RunningFederation, rows: list[Row]) -> None:
        if not self._failed:
            self._try(lambda: self.write(federation.history.rounds, self._values(federation, rows)), federation)

    def summary(self) -> Mapping[str, Any]:
        return {f"{type(self).__name__} failed": self._failed} if self._failed else {}

    def end(self, federation: RunningFederation, error: BaseException | None) -> None:
        folder = federation.run_dir
        paths = [] if folder is None else [path for name in ARTIFACTS if (path := folder / name).is_file()]
        if not self._failed:
            self._try(lambda: self.close(paths, error), federation)

    def _try(self, action: Callable[[], None], federation: RunningFederation) -> None:
        try:
            action()
        except SettingsError:
            raise  # a mistake of the user's, reported before anything is trained
        except Exception as error:
            self._failed = f"after round {federation.history.rounds}: {type(error).__name__}: {error}"
            log.warning("%s tracks this run no more, which goes on: %s", type(self).__name__, self._failed)

    def _values(self, federation: RunningFederation, rows: list[Row]) -> RoundValues:
        """The mean and the worst of each metric, what has travelled and was worked so far, who took part."""
        found: dict[str, float] = {}
        for name in metrics_of(rows):
            column = {row["participant"]: float(row[name]) for row in rows if row.get(name) is not None}
            found[name] = fmean(column.values())
            found[f"{name}/worst"] = (max if less_is_better(name) else min)(column.values())
            if self.participants:
                found |= {f"{name}/{participant}": value for participant, value in column.items()}
        up, down = federation.history.bytes()
        found |= {"bytes_up": up, "bytes_down": down, "seconds": federation.history.seconds}
        found["took_part"] = sum(bool(row.get("took_part")) for row in rows)
        found["dropped_out"] = sum(bool(row.get("refused")) for row in rows)
        return found


def metrics_of(rows: list[Row]) -> list[str]:
    """The names of what was measured of participants: numbers, and those that methods note."""
    other = {"round", "participant", "model", *IDLE}
    names = dict.fromkeys(name for row in rows for name in row if name not in other)
    numbers = (int, float)
    return [
        name
        for name in names
        if any(isinstance(row.get(name), numbers) and not isinstance(row.get(name), bool) for row in rows)
        and all(row.get(name) is None or isinstance(row[name], numbers) for row in rows)
    ]


def _flat(content: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Settings, with dots between the parts of a key. What is empty is left out, and a list is its text."""
    if isinstance(content, Mapping):
        for name, value in content.items():
            yield from _flat(value, f"{key}.{name}" if key else str(name))
    elif isinstance(content, list):
        yield key, json.dumps(content, default=str)
    elif content is not None:
        yield key, content
