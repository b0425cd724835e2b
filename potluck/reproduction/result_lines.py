"""Results as lines of a file: one for each run, with all that it was made with. Lines are added, never written over.

A result that turned out to be wrong is withdrawn: its line stays, and says why.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from potluck.core.errors import DataError
from potluck.core.settings import mistakes


class ResultLine(BaseModel):
    """What came of one run, and how it was made. None says that it is not known.

    Args:
        run: its name, which no other line of the folder has.
        experiment: what was played: an experiment or a recipe.
        setting: which of its settings, or which row.
        seed: what every random draw derived from.
        start: when it began, in UTC.
        seconds: how long its rounds took in all.
        planned: how many rounds were to be played.
        played: how many were.
        done: whether it came to its end.
        commit: the commit of Potluck's source.
        dirty: whether the source differed from that commit.
        engine: who carried the work out.
        device: what networks ran on.
        precision: what they computed in.
        method: the method with its settings.
        plan: how networks trained.
        data: the SHA-256 of what was trained and measured on, and its sizes.
        versions: of Python and the libraries.
        beside: what else kept the machine busy: its cores, how many runs were played at a time, and how many processes
            wanted a core on average, before and after.
        about: what else the experiment says of itself.
        rounds: name → one value for each round: seconds, and means over those who took part.
        measured: name → one value for each round that was measured.
        participants: name → accuracy after the last round that was measured.
        received: what each participant received, where a method notes it.
        content: what was found, where it is no run but a count or a choice.
        carried_over: where a line was made of an earlier file, which one and by which commit it was last written.
        withdrawn: why it counts no more.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str = Field(min_length=1)
    experiment: str
    setting: str = ""
    seed: int | None = None
    start: str | None = None
    seconds: float | None = None
    planned: int | None = None
    played: int | None = None
    done: bool = False
    commit: str | None = None
    dirty: bool | None = None
    engine: str | None = None
    device: str | None = None
    precision: str | None = None
    method: str | None = None
    plan: str | None = None
    data: dict[str, Any] | None = None
    versions: dict[str, str] | None = None
    beside: dict[str, Any] | None = None
    about: dict[str, Any] = Field(default_factory=dict)
    rounds: dict[str, list[float]] = Field(default_factory=dict)
    measured: dict[str, list[float]] = Field(default_factory=dict)
    participants: dict[str, float] = Field(default_factory=dict)
    received: dict[str, Any] | None = None
    content: Any = None
    carried_over: dict[str, str] | None = None
    withdrawn: str | None = Field(None, min_length=1)

    @property
    def name(self) -> str:
        """What it is a result of."""
        return f"{self.experiment}.{self.setting}".rstrip(".")

    @model_validator(mode="after")
    def _columns_are_as_long_as_each_other(self) -> ResultLine:
        for name, columns in {"rounds": self.rounds, "measured": self.measured}.items():
            if len({len(column) for column in columns.values()}) > 1:
                raise ValueError(f"the columns of {name} differ in length.")
        if any(len(column) != self.played for column in self.rounds.values()):
            raise ValueError(f"played is {self.played}, and rounds has another number of them.")
        return self


def read_lines(path: Path) -> Iterator[ResultLine]:
    """All lines of a file, what is withdrawn among them; none of a file that is not there."""
    if not path.exists():
        return
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            yield ResultLine.model_validate_json(text)
        except ValidationError as error:
            reasons = "; ".join(f"{'.'.join(map(str, place))}: {why}" for place, why in mistakes(ResultLine, error))
            raise DataError(f"{path}, line {number}: {reasons}") from error


def append(path: Path, line: ResultLine) -> ResultLine:
    """Adds a line at the end of a file, and returns it. A name that is taken gets a number.

    Args:
        path: the file; it and its folder are made where they are not there.
        line: what is added.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(path):
        taken = {other.run for other in read_lines(path)}
        names = [line.run, *(f"{line.run}-{number}" for number in range(2, len(taken) + 2))]
        kept = line.model_copy(update={"run": next(name for name in names if name not in taken)})
        with path.open("a", encoding="utf-8") as file:
            file.write(text_of(kept))
            file.flush()
            os.fsync(file.fileno())
    return kept


def withdraw(path: Path, run: str, reason: str) -> None:
    """Marks a line as one that counts no more. Nothing else in the file changes.

    Args:
        path: the file.
        run: the name of the line.
        reason: why, for whoever reads the file.
    """
    if not reason.strip():
        raise DataError(f"{run} is withdrawn without a reason; expected one.")
    with _alone(path):
        found = {line.run: line for line in read_lines(path)}
        if run not in found:
            raise DataError(f"{path} has no line {run!r}.")
        if found[run].withdrawn is not None:
            raise DataError(f"{run} is withdrawn already: {found[run].withdrawn}")
        texts = path.read_text(encoding="utf-8").splitlines(keepends=True)
        place = list(found).index(run)
        texts[place] = text_of(found[run].model_copy(update={"withdrawn": reason}))
        draft = path.with_suffix(".unfinished")
        draft.write_text("".join(texts), encoding="utf-8")
        draft.replace(path)


def text_of(line: ResultLine) -> str:
    """A line as it stands in a file, its end included. What is not known is written as null."""
    columns = {
        name: {column: [_short(value) for value in values] for column, values in part.items()}
        for name, part in {"rounds": line.rounds, "measured": line.measured}.items()
    }
    return json.dumps(line.model_dump(mode="json") | columns, ensure_ascii=False, separators=(",", ":")) + "\n"


def _short(value: float) -> float:
    """Whole numbers without a point: bytes are means, and rounds stand beside accuracies."""
    return int(value) if value.is_integer() else value


def _alone(path: Path) -> FileLock:
    """Several processes add to a file, each in its turn."""
    return FileLock(path.with_name(f".{path.name}.lock"))
