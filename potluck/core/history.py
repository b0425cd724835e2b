"""The history of a federation: what happened to whom in which round, and what to read off it."""

from __future__ import annotations

import json
import math
import os
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from potluck.core.columns import Columns
from potluck.core.errors import DataError, PotluckError, how_to_install, nearest
from potluck.core.metrics import less_is_better

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Row = dict[str, Any]

FILE = "history.jsonl"
"""The file of a run folder that holds its history, a line of JSON for each row."""

IDLE: Row = {
    "bytes_up": 0,
    "bytes_down": 0,
    "seconds": 0.0,
    "simulated_seconds": 0.0,
    "took_part": False,
    "refused": None,
}
"""What holds for a round in which nothing happened to a participant."""

SERVER = "server"
"""Who a row is about that tells of a model of the server's."""

WHOSE = ("round", "participant", "model")
"""What says whom a row is about."""

_MEASURED = ("accuracy", "loss", "macro_f1")
"""Numbers that a row may lack, or hold as None."""


@dataclass(frozen=True)
class Standing:
    """The results of all participants after one round.

    Args:
        round: the round.
        metric: what ``score`` and ``worst`` are of: the headline.
        score: the mean over participants; None without test data.
        worst: that of whoever has the worst; None without test data.
        rows: the participants' rows.
        models: the rows of further models, of participants' and of the server's, which count in no mean.
        chosen_on_test: whether this round was chosen by test data, so that it is no valid result.
        evaluated: whether those who took part were evaluated after it; without, there is no mean.
    """

    round: int
    metric: str
    score: float | None
    worst: float | None
    rows: tuple[Row, ...]
    models: tuple[Row, ...] = ()
    chosen_on_test: bool = False
    evaluated: bool = True

    @property
    def accuracy(self) -> float | None:
        """The mean accuracy; None without test data or evaluation, and of tasks that have none."""
        if not self.evaluated:
            return None
        return _mean([row["accuracy"] for row in self.rows if row.get("accuracy") is not None])


class History:
    """Rows with round, participant, metrics such as the accuracy, bytes_up, bytes_down, seconds, and what is noted.

    A row is recorded only where something happened to a participant. For a round without one, readers get the values
    before ``bytes_up`` from its newest row; those from there on belong to the round of that row alone. A row is about a
    participant, or about one of its models, where it names one (``model``).

    Args:
        rows: rows to begin with, in the order of rounds; by default none.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows = Columns()
        self._subjects: dict[tuple[str, str | None], int] = {}
        self._subject = array("L")
        """Whom each row is about, as a number."""
        self._newest = array("L")
        """For each of those the row that says how it stands."""
        self._rounds: dict[int, range] = {}
        """For each round where its rows are."""
        self.add(rows)

    def __len__(self) -> int:
        return sum(len(newest) for _, newest in self._standings())

    def add(self, rows: Iterable[Row]) -> None:
        """Adds rows, all of them or none. Rounds come in order. A number that is not finite becomes None."""
        before = len(self._rows)
        try:
            for row in rows:
                self._add({name: _writable(value) for name, value in row.items()})
        except BaseException:
            self._rows.cut(before)
            del self._subject[before:]
            self._rounds = {
                number: range(rows.start, min(rows.stop, before))
                for number, rows in self._rounds.items()
                if rows.start < before
            }
            known = max(self._subject, default=-1) + 1
            self._subjects = {who: number for who, number in self._subjects.items() if number < known}
            raise
        for index in range(before, len(self._rows)):
            self._stand(self._newest, index)

    def _add(self, row: Row) -> None:
        _check(row)
        if row["round"] < self.rounds:
            raise DataError(f"A row of round {row['round']} comes after one of round {self.rounds}; expected in order.")
        row["participant"] = sys.intern(str(row["participant"]))  # one text for all rows of a participant
        self._subject.append(self._subjects.setdefault((row["participant"], row.get("model")), len(self._subjects)))
        self._rows.append(row)
        end = len(self._rows)
        self._rounds[row["round"]] = range(self._rounds.get(row["round"], range(end - 1, end)).start, end)

    def _stand(self, newest: array[int], index: int) -> None:
        """Takes one more row into account. Whoever is new comes last."""
        if (subject := self._subject[index]) == len(newest):
            newest.append(index)
        else:
            newest[subject] = index

    def _standings(self) -> Iterator[tuple[int, array[int]]]:
        """Round by round, for each participant the row that says how it stands then."""
        newest = array("L")
        for number, rows in self._rounds.items():
            for index in rows:
                self._stand(newest, index)
            yield number, newest

    def recorded(self, round: int | None = None) -> Iterator[Row]:
        """The rows as they were recorded, of one round or of all: of those to whom something happened."""
        indices = range(len(self._rows)) if round is None else self._rounds.get(round, ())
        return (self._rows[index] for index in indices)

    def rows(self) -> list[Row]:
        """A row for each round and participant, as plain dicts."""
        return [self._row(index, number) for number, newest in self._standings() for index in newest]

    def _row(self, index: int, round: int) -> Row:
        """How somebody stood after a round, by its newest row."""
        row = self._rows[index]
        if row["round"] == round:
            return row
        lasting = {name: row[name] for name in takewhile(lambda name: name not in IDLE, row)}
        return {**lasting, "round": round, **{name: value for name, value in IDLE.items() if name in row}}

    def says(self, participant: str, values: Mapping[str, Any], model: str | None = None) -> bool:
        """Whether the newest row of a participant, or of one of its models, holds these values."""
        if (subject := self._subjects.get((participant, model))) is None:
            return False
        row = self._rows[self._newest[subject]]
        return all(name in row and row[name] == _writable(value) for name, value in values.items())

    def newest(self, participant: str, names: Iterable[str]) -> Row:
        """These values of a participant's newest row, as far as it has them."""
        if (subject := self._subjects.get((participant, None))) is None:
            return {}
        row = self._rows[self._newest[subject]]
        return {name: row[name] for name in names if name in row}

    @property
    def rounds(self) -> int:
        """How many rounds have been played."""
        return next(reversed(self._rounds), 0)

    @property
    def headline(self) -> str:
        """The metric by which participants are compared: the first one of a row."""
        for row in self.recorded():
            named = takewhile(lambda name: name not in IDLE, (name for name in row if name not in WHOSE))
            if (first := next(named, None)) is not None:
                return first
        return "accuracy"

    @property
    def final(self) -> Standing:
        """The last round: what a table should show."""
        return self.at(self.rounds)

    @property
    def best(self) -> Standing:
        """The round of the best mean of the headline: marked as such, since it is chosen on test data."""
        name, sign = self.headline, -1 if less_is_better(self.headline) else 1
        means = ((_mean(found), number) for number, found in self.values(name))
        top = max(means, key=lambda pair: -math.inf if pair[0] is None else sign * pair[0], default=(0, self.rounds))[1]
        chosen = self.at(top)
        return replace(chosen, chosen_on_test=True)

    def at(self, round: int) -> Standing:
        """How all stood after one round."""
        standing = [self._row(index, round) for index in self._standing(round)]
        rows = tuple(row for row in standing if "model" not in row)
        models = tuple(row for row in standing if "model" in row)
        name = self.headline
        scores = [row[name] for row in rows if row.get(name) is not None]
        worst = (max if less_is_better(name) else min)(scores, default=None)
        if not self.evaluated(round):
            return Standing(round, name, None, None, rows, models, evaluated=False)
        return Standing(round, name, _mean(scores), worst, rows, models)

    def evaluated(self, round: int) -> bool:
        """Whether those who took part in a round were evaluated after it."""
        name = self.headline
        if name not in self._rows:
            return True
        found = (index for index in self._rounds.get(round, ()) if self._rows.value(index, "took_part"))
        return all(self._rows.has(index, name) for index in found)

    def _standing(self, round: int) -> Iterable[int]:
        """For each participant the row that says how it stood after a round; none where it was not played."""
        if round == self.rounds:
            return self._newest
        if round not in self._rounds:
            return ()
        subjects = np.array(self._subject[: self._rounds[round].stop])
        newest = np.empty(int(subjects.max()) + 1, dtype=np.int64)
        newest[subjects] = np.arange(len(subjects))  # of several rows of one participant the last one stays
        return array("L", newest.tolist())

    def values(self, name: str) -> Iterator[tuple[int, list[Any]]]:
        """Round by round, where there was an evaluation, a value of every participant that has one."""
        own = [model is None for _, model in self._subjects]
        for number, newest in self._standings():
            if not self.evaluated(number):
                continue
            found = (self._rows.value(index, name) for subject, index in enumerate(newest) if own[subject])
            yield number, [value for value in found if value is not None]

    @property
    def seconds(self) -> float:
        """What all have worked so far."""
        return float(self._rows.total("seconds"))

    def simulated_seconds(self) -> Iterator[tuple[int, float]]:
        """Round by round, how late it is by the virtual clock: a round takes as long as for its slowest.

        Nothing where the federation has no such clock.
        """
        so_far = 0.0
        for number, rows in self._rounds.items():
            found = [self._rows.value(index, "simulated_seconds") for index in rows]
            if any(value is not None for value in found):
                so_far += max(value for value in found if value is not None)
                yield number, so_far

    def bytes(self, participant: str | None = None) -> tuple[int, int]:
        """Bytes sent up and down so far, by one participant or all of them."""
        if participant is None:
            return self._rows.total("bytes_up"), self._rows.total("bytes_down")
        up, down, _ = self.spent().get(participant, (0, 0, 0.0))
        return up, down

    def spent(self) -> dict[str, tuple[int, int, float]]:
        """Everybody's bytes up and down, and seconds, in all rounds."""
        found: dict[str, tuple[int, int, float]] = {}
        for index in range(len(self._rows)):
            name, up, down, seconds = (
                self._rows.value(index, column) for column in ("participant", "bytes_up", "bytes_down", "seconds")
            )
            before = found.get(name, (0, 0, 0))
            found[name] = (before[0] + up, before[1] + down, before[2] + seconds)
        return found

    def to_json(self) -> str:
        """The rows as they were recorded, as JSON."""
        return json.dumps(list(self.recorded()), indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> History:
        """The history that ``to_json`` wrote."""
        rows = json.loads(text)
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise DataError("The text is not a history as `to_json` writes one; expected a list of objects.")
        return History(rows)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> History:
        """The history of a run folder, or of its ``history.jsonl``; also of a run that is still being played."""
        file = Path(path) / FILE if Path(path).is_dir() else Path(path)
        if not file.is_file():
            raise DataError(f"There is no history in {path}; expected a run folder, or its {FILE}.")
        history = History()
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if not line.endswith(b"\n"):
                    break  # the line that is being written, or was when the run was cut off
                try:
                    history.add([parse_row(line)])
                except DataError as error:
                    raise DataError(f"{file}, line {number}: {error}") from error
        return history

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a data frame. Of very large histories rather make one of ``recorded()``."""
        try:
            import pandas
        except ImportError as error:
            raise PotluckError(f"A data frame needs pandas: {how_to_install('pandas')}") from error
        return pandas.DataFrame(self.rows())

    def plot(self, path: str | os.PathLike[str] | None = None, metric: str | None = None, by: str = "round") -> Figure:
        """Draws a metric, its mean and its range over participants, and keeps the picture at ``path``.

        Returns matplotlib's figure, which a notebook shows.

        Args:
            path: where the picture goes; by default nowhere.
            metric: what is drawn; by default the headline.
            by: what it is drawn by: "round" (the default), "bytes" sent and received by all so far, or "simulated"
                seconds by the virtual clock.
        """
        from potluck.report.progress import draw_progress

        metric = metric or self.headline
        if not any(found for _, found in self.values(metric)):
            numbers = {name for row in self.final.rows for name, value in row.items() if isinstance(value, int | float)}
            raise DataError(f"The history has no {metric!r} to draw.{nearest(metric, numbers - {'round'})}")
        return draw_progress(self, metric, None if path is None else Path(path), by)

    def table(self) -> str:
        """The last round in a table, the best one marked as chosen on test data."""
        from potluck.core.history_table import table_of

        return table_of(self)


def parse_row(line: bytes) -> Row:
    """A row from its line in a file."""
    try:
        row = json.loads(line.decode())
    except RecursionError as error:
        raise DataError("it is nested too deeply to be a row") from error
    except ValueError as error:  # no UTF-8 is one of these, too
        raise DataError(f"it is no JSON text: {error}") from error
    if not isinstance(row, dict):
        raise DataError(f"it holds a {type(row).__name__}; expected an object with round, participant and so on")
    _check(row)
    return row


def _check(row: Row) -> None:
    """Makes sure that a row holds what readers read."""
    needed = ("round", "participant", "bytes_up", "bytes_down", "seconds")
    if missing := [name for name in needed if name not in row]:
        raise DataError(f"A row lacks {', '.join(missing)}; it holds {', '.join(map(str, row)) or 'nothing'}.")
    if type(row["round"]) is not int or row["round"] < 1:
        raise DataError(f"A row's round is {row['round']!r}; expected a whole number from 1 on.")
    for name in ("participant", "model"):
        if not isinstance(row.get(name, ""), str):
            raise DataError(f"A row's {name} is {row[name]!r}; expected a name.")
    for name in (*needed[2:], *(name for name in _MEASURED if row.get(name) is not None)):
        if isinstance(row[name], bool) or not isinstance(row[name], int | float):
            raise DataError(f"A row's {name} is {row[name]!r}; expected a number.")


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _writable(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def readable_bytes(count: float) -> str:
    """A number of bytes for people, e.g. 12.3 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
