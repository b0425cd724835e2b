"""Trackers that write a table of rounds: as CSV, or as lines of JSON."""

from __future__ import annotations

import csv
import io
import json
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from potluck.core.errors import SettingsError
from potluck.runs.folder import replace_file
from potluck.runs.trackers.tracker import RoundValues, TrackedRun, Tracker

Line = dict[str, Any]


class RoundsFile(Tracker):
    """A file with a line for each round. A run that goes on goes on in it.

    Args:
        path: the file; by default one in the run folder.
        participants: as of ``Tracker``.
    """

    DEFAULT: ClassVar[str]
    """What the file is called in a run folder."""

    def __init__(self, path: str | None = None, participants: bool = False) -> None:
        super().__init__(participants=participants)
        self.path = path
        self._file = Path()
        self._lines: list[Line] = []

    def open(self, run: TrackedRun) -> None:
        if self.path is None and run.folder is None:
            raise SettingsError(f"{type(self).__name__} has no folder to write to; give it a `path`, or the run one.")
        self._file = Path(self.path) if self.path is not None else Path(run.folder or "", self.DEFAULT)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        text = self._file.read_text(encoding="utf-8") if run.played and self._file.is_file() else ""
        self._lines = [line for line in self.read(text) if int(line["round"]) <= run.played]
        replace_file(self._file, self.text(self._lines))

    def write(self, round: int, values: RoundValues) -> None:
        line = {"round": round, **values}
        fits = self.fits(line)
        self._lines.append(line)
        if fits:
            with self._file.open("a", encoding="utf-8", newline="") as file:
                file.write(self.line(line))
        else:
            replace_file(self._file, self.text(self._lines))

    def close(self, artifacts: list[Path], error: BaseException | None) -> None:
        """Everything is in the file already."""

    @abstractmethod
    def read(self, text: str) -> list[Line]:
        """The lines of a file that was written before."""

    @abstractmethod
    def text(self, lines: list[Line]) -> str:
        """The whole file."""

    @abstractmethod
    def line(self, line: Line) -> str:
        """One line, as it follows the others."""

    @abstractmethod
    def fits(self, line: Line) -> bool:
        """Whether it can follow the others as they are."""


class JsonLines(RoundsFile):
    """A line of JSON for each round, in ``metrics.jsonl`` of the run folder.

    Args:
        path: the file; by default one in the run folder.
        participants: whether each participant's metrics are recorded, too; by default only their mean and the worst.
    """

    DEFAULT = "metrics.jsonl"

    def read(self, text: str) -> list[Line]:
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def text(self, lines: list[Line]) -> str:
        return "".join(map(self.line, lines))

    def line(self, line: Line) -> str:
        return json.dumps(line) + "\n"

    def fits(self, line: Line) -> bool:
        return True


class CsvFile(RoundsFile):
    """A row for each round, in ``metrics.csv`` of the run folder. A new column is added for all rows.

    Args:
        path: the file; by default one in the run folder.
        participants: whether each participant's metrics are recorded, too; by default only their mean and the worst.
    """

    DEFAULT = "metrics.csv"

    def read(self, text: str) -> list[Line]:
        return list(csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])))

    def text(self, lines: list[Line]) -> str:
        self._columns = list(dict.fromkeys(name for line in lines for name in line)) or ["round"]
        return self._written(dict(zip(self._columns, self._columns, strict=True))) + "".join(map(self._written, lines))

    def line(self, line: Line) -> str:
        return self._written(line)

    def fits(self, line: Line) -> bool:
        return set(line) <= set(self._columns)

    def _written(self, line: Line) -> str:
        text = io.StringIO()
        csv.DictWriter(text, self._columns, lineterminator="\n").writerow(line)
        return text.getvalue()
