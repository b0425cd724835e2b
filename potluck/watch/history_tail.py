"""Reads a history while it is being written: only what is new, and anew where rounds are played again."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from potluck.core.history import IDLE, Row, parse_row

REMEMBERED = 1024
"""So many of the last bytes that were read must still be there, or the file is another one."""
DROPS = 20
"""So many of the last drop-outs are named."""


@dataclass
class Drop:
    """A participant that dropped out of a round.

    Args:
        round: the round.
        name: whose it was.
        why: the reason.
    """

    round: int
    name: str
    why: str


@dataclass
class HistoryProgress:
    """What a history says so far.

    Args:
        metric: the headline; empty before the first row.
        points: round → the mean of the headline over participants.
        standing: participant → its newest value of the headline.
        travelled: participant → bytes that it has sent, and received.
        seconds: what all have worked.
        dropped: how often anybody has dropped out.
        drops: the last ones of these.
        rounds: the newest round.
    """

    metric: str = ""
    points: dict[int, float] = field(default_factory=dict)
    standing: dict[str, float | None] = field(default_factory=dict)
    travelled: dict[str, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    dropped: int = 0
    drops: deque[Drop] = field(default_factory=lambda: deque(maxlen=DROPS))
    rounds: int = 0

    @property
    def bytes(self) -> tuple[int, int]:
        """What all have sent, and received."""
        ups, downs = zip(*self.travelled.values(), strict=True) if self.travelled else ((0,), (0,))
        return sum(ups), sum(downs)

    def add(self, row: Row) -> None:
        """Takes one more row into account."""
        number, name = row["round"], str(row["participant"])
        self._end_round(number)
        up, down = self.travelled.get(name, (0, 0))
        self.travelled[name] = up + row["bytes_up"], down + row["bytes_down"]
        self.seconds += row["seconds"]
        if "model" in row:
            return  # of a model beside the participants' own
        if not self.metric:
            self.metric = next((key for key in row if key not in ("round", "participant") and key not in IDLE), "")
        value = row.get(self.metric)
        self.standing[name] = float(value) if isinstance(value, int | float) else None
        if row.get("refused"):
            self.dropped += 1
            self.drops.append(Drop(number, name, str(row["refused"])))

    def settle(self) -> None:
        """The mean after the newest round, with what is known of it."""
        values = [value for value in self.standing.values() if value is not None]
        if self.rounds and values:
            self.points[self.rounds] = fmean(values)

    def _end_round(self, number: int) -> None:
        if number != self.rounds:
            self.settle()
            self.rounds = number


class HistoryTail:
    """Follows the history in a file.

    Args:
        path: the file, which may not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._end, self._last = 0, b""
        self.progress = HistoryProgress()

    def read(self) -> HistoryProgress:
        """What the history says now."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._end - len(self._last)))
                if file.read(len(self._last)) != self._last:
                    self._end, self._last, self.progress = 0, b"", HistoryProgress()
                    file.seek(0)
                text = file.read()
        except FileNotFoundError:
            self._end, self._last, self.progress = 0, b"", HistoryProgress()
            return self.progress
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be being written
        for line in whole.splitlines():
            self.progress.add(parse_row(line))
        self.progress.settle()
        self._end += len(whole)
        self._last = (self._last + whole)[-REMEMBERED:]
        return self.progress
