"""How a run stands, read from its folder alone: its history, what is going on, and how it ended."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from potluck.core.errors import DataError
from potluck.core.history import FILE
from potluck.core.metrics import SHARES, less_is_better, title
from potluck.core.processes import started_at
from potluck.runs.folder import SETTINGS, SUMMARY
from potluck.runs.live import LIVE
from potluck.runs.validation_log import VALIDATION
from potluck.watch.history_tail import Drop, HistoryTail

SERVED = Path("flower") / "progress.log"
"""What a served federation says of itself, in its run folder."""
NEWS = 5
"""So many of its last lines are reported."""
PEOPLE = 100
"""So many participants are listed, those who are worst off first."""
OVER = ("ended", "interrupted", "failed", "lost")
"""The states after which nothing more happens."""
POINTS = 1000
"""So many points a curve has at most."""


@dataclass
class Person:
    """A participant, as it stands.

    Args:
        name: its name.
        score: its newest value of the headline; None where it was not measured.
        sent: bytes it has sent.
        received: bytes it has received.
        doing: what it does at present: "working", or nothing that is known.
    """

    name: str
    score: float | None
    sent: int
    received: int
    doing: str


@dataclass
class RunView:
    """How a run stands.

    Args:
        folder: its folder.
        title: its method and seed, as far as they are known.
        state: "waiting", "playing", "ended", "interrupted", "failed", or "lost" where its process is gone.
        why: why it ended so, if there is more to say.
        round: the last round that was played.
        rounds: how many it is to have; 0 where that is not known.
        metric: the headline, for people.
        share: whether it is shown in percent.
        less: whether less of it is better.
        points: round and mean, in order.
        score: the newest mean.
        worst: the newest value of whoever is worst off.
        validation: round and mean on validation data, where somebody looks at them.
        sent: bytes that all have sent.
        received: bytes that all have received.
        seconds: what all have worked.
        left: seconds until it ends, by how it went so far; None where nothing can be said.
        phase: what is played at present: "join" or "round", and the round of it.
        since: for how many seconds.
        doing: how many participants work, wait, have ended, dropped out.
        working: who works, some of them by name.
        out: who dropped out of this phase, and why.
        dropped: how often anybody has dropped out of a round.
        drops: the last ones.
        people: the participants, whoever is worst off first.
        news: what a served federation says of itself.
        now: when this was read, in seconds since 1970.
    """

    folder: str
    title: str = ""
    state: str = "waiting"
    why: str = ""
    round: int = 0
    rounds: int = 0
    metric: str = ""
    share: bool = False
    less: bool = False
    points: list[tuple[int, float]] = field(default_factory=list)
    score: float | None = None
    worst: float | None = None
    validation: list[tuple[int, float]] = field(default_factory=list)
    sent: int = 0
    received: int = 0
    seconds: float = 0.0
    left: float | None = None
    phase: str = ""
    since: float = 0.0
    doing: dict[str, int] = field(default_factory=dict)
    working: list[str] = field(default_factory=list)
    out: dict[str, str] = field(default_factory=dict)
    dropped: int = 0
    drops: list[Drop] = field(default_factory=list)
    people: list[Person] = field(default_factory=list)
    news: list[str] = field(default_factory=list)
    now: float = 0.0

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in OVER

    def to_json(self) -> dict[str, Any]:
        """The same in plain values."""
        return {"kind": "run", "over": self.over, **asdict(self)}


class RunWatcher:
    """Reads a run folder again and again; nothing is ever written to it.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._tail = HistoryTail(folder / FILE)

    def look(self) -> RunView:
        """How the run stands now."""
        progress, live, now = self._tail.read(), read_object(self.folder / LIVE), time.time()
        settings = read_object(self.folder / SETTINGS)
        view = RunView(str(self.folder), round=progress.rounds, now=now)
        if settings:
            view.title = f"{settings['method']['name']}, seed {settings['seed']}"
        view.rounds = int(live.get("rounds", 0)) or int((settings.get("recipe") or {}).get("rounds", 0))
        view.metric, view.share = title(progress.metric), progress.metric in SHARES
        view.less = bool(progress.metric) and less_is_better(progress.metric)
        view.points = _thinned(list(progress.points.items()))
        values = [value for value in progress.standing.values() if value is not None]
        if values:
            view.score, view.worst = progress.points[progress.rounds], (max if view.less else min)(values)
        view.validation = _thinned(_validation(self.folder / VALIDATION))
        (view.sent, view.received), view.seconds = progress.bytes, progress.seconds
        view.dropped, view.drops = progress.dropped, list(progress.drops)
        view.state, view.why = self._state(live)
        view.news = _last_lines(self.folder / SERVED)
        working: list[str] = []
        if view.state == "playing":
            working = list(live.get("working", ()))
            view.phase, view.doing = str(live.get("phase", "")), dict(live.get("doing", {}))
            view.since = max(0.0, now - float(live.get("since") or live.get("began") or now))
            view.working, view.out = working, dict(live.get("out", {}))
            view.left = _left(live, progress.rounds, view.rounds, now)
        people = [
            Person(name, score, *progress.travelled[name], "working" if name in working else "")
            for name, score in progress.standing.items()
        ]
        sign = -1 if view.less else 1
        people.sort(key=lambda person: (person.score is None, sign * (person.score or 0.0), person.name))
        view.people = people[:PEOPLE]
        return view

    def _state(self, live: dict[str, Any]) -> tuple[str, str]:
        state, why = str(live.get("state", "")), str(live.get("why", ""))
        if not live:
            return ("ended" if (self.folder / SUMMARY).is_file() else "waiting"), ""
        if state == "playing" and gone(live):
            return "lost", "its process has ended without a word, as by kill -9 or a lack of memory; --resume goes on"
        return state, why


def gone(live: dict[str, Any]) -> bool:
    """Whether the process that plays a run is no more. Of another machine's nobody can say."""
    if live.get("host") != socket.gethostname() or not isinstance(live.get("pid"), int):
        return False
    try:
        os.kill(live["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it is another user's
    return live.get("started") not in (None, started_at(live["pid"]))


def read_object(path: Path) -> dict[str, Any]:
    """A file that holds an object, as it is now; empty where there is none, or none that can be read yet."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except PermissionError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Ask its owner for the right to.") from error
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _left(live: dict[str, Any], played: int, rounds: int, now: float) -> float | None:
    """Seconds until the last round, if the others take as long as those since the run began, or went on."""
    since_then = played - int(live.get("played", 0))
    if since_then <= 0 or rounds <= 0:
        return None
    began = float(live.get("began", now))
    in_round = float(live.get("since", now)) if live.get("round", 0) > played else now
    each = (min(in_round, now) - began) / since_then
    return max(0.0, each * (rounds - played) - (now - min(in_round, now)))


def _validation(path: Path) -> list[tuple[int, float]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError:
        return []
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(line["round"], line["value"]) for line in entries]


def _last_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4096))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-NEWS:]


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """So few points as are shown, the last one always among them."""
    step = -(-len(points) // POINTS) or 1
    return points[::-1][::step][::-1]
