"""A run's history on disk: a line of JSON for each row, and a running SHA-256 of them all.

What the SHA-256 was after each round stands in the checkpoint. A run that goes on reads the lines of its rounds only
as they were written; what was written after the checkpoint's round will be played again, and is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from potluck.core.errors import DataError
from potluck.core.history import History, Row, parse_row
from potluck.runs.checkpoint import CheckpointError, sync

Mark = tuple[int, int, str]
"""A round, where its last line ends, and the SHA-256 of everything up to there."""


class HistoryFile:
    """The file that rows are appended to, which nobody else may change meanwhile.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sum, self._end = hashlib.sha256(), 0
        self._marks: dict[int, Mark] = {}

    @property
    def marks(self) -> list[Mark]:
        """What is to stand in a checkpoint: a mark for each round so far."""
        return list(self._marks.values())

    def append(self, rows: Iterable[Row]) -> None:
        """Adds rows, round by round, and makes sure that they are on the disk."""
        if (found := self._path.stat().st_size) != self._end:
            raise CheckpointError(
                f"{self._path} has {found} bytes where this run wrote {self._end}: somebody else changed it. "
                f"Go on with `resume`, or start again in a new folder."
            )
        with self._path.open("ab") as file:
            for row in rows:
                line = json.dumps(row, allow_nan=False).encode() + b"\n"
                file.write(line)
                self._count(line)
                self._marks[row["round"]] = (row["round"], self._end, self._sum.hexdigest())
            file.flush()
            os.fsync(file.fileno())

    def take_up(self, marks: Iterable[Mark]) -> History:
        """The history of the rounds that a checkpoint knows; the file ends with them from now on."""
        self._sum, self._end, self._marks = hashlib.sha256(), 0, {}
        history = History()
        self._path.touch()
        lines = 0
        with self._path.open("rb") as file:
            for number, end, checksum in marks:
                start, text = self._end, file.read(end - self._end)
                self._count(text)
                if self._sum.hexdigest() != checksum:
                    file.seek(start)
                    what = _changed(file, end - start, lines, number)
                    raise CheckpointError(
                        f"{self._path} is not what was written up to the checkpoint. In round {number}, {what}. "
                        f"Put the file back as it was, or start again in a new folder."
                    )
                history.add(parse_row(line) for line in text.splitlines())
                lines += text.count(b"\n")
                self._marks[number] = (number, end, checksum)
        os.truncate(self._path, self._end)
        sync(self._path)
        return history

    def _count(self, text: bytes) -> None:
        self._sum.update(text)
        self._end += len(text)


def _changed(file: BinaryIO, length: int, before: int, number: int) -> str:
    """What of a round's lines, which come next in the file, is not as it was written, as far as it can be seen."""
    place = before
    for place, line in enumerate(file, before + 1):
        if reason := _wrong(line, number):
            return f"line {place}: {reason}"
        length -= len(line)
        if length <= 0:
            return f"line {place} was changed" if place == before + 1 else f"lines {before + 1} to {place} were changed"
    return f"the file ends with line {place}, and lines are missing"


def _wrong(line: bytes, round: int) -> str | None:
    """What can be seen to be wrong with a line of a round; None if nothing can."""
    try:
        row = parse_row(line)
    except DataError as error:
        return str(error).rstrip(".")
    return None if row["round"] == round else f"it is of round {row['round']}"
