"""What of a run is going on right now: a file in its folder that whoever may read it can follow."""

from __future__ import annotations

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from potluck.core.processes import started_at

LIVE = "live.json"
"""The file of a run folder that says what is going on."""
PAUSE = 0.5
"""Seconds between two writes, so that many short rounds are not slowed down by being watched."""
SHOWN = 50
"""So many names are reported of those who are at work; of all others their number."""

Doing = Literal["working", "waiting", "done", "out"]
"""What a participant does in a phase: it works, waits at an exchange, has ended, or dropped out."""


class LiveFile:
    """Says what is going on, in a file that is replaced as a whole. A disk that refuses it disturbs no run.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts: dict[str, Any] = {}
        self._doing: dict[str, Doing] = {}
        self._out: dict[str, str] = {}
        self._written = 0.0

    def __enter__(self) -> LiveFile:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.end(error)

    def begin(self, rounds: int, played: int) -> None:
        """The run begins, or goes on.

        Args:
            rounds: how many it is to have in all.
            played: how many it has already.
        """
        pid = os.getpid()
        who = {"pid": pid, "started": started_at(pid), "host": socket.gethostname()}
        self._facts = {
            "format": 1,
            "state": "playing",
            **who,
            "began": time.time(),
            "rounds": rounds,
            "played": played,
        }
        self._write()

    def phase(self, phase: str, round: int, names: Iterable[str]) -> None:
        """A phase begins, with these participants at work."""
        self._doing, self._out = dict.fromkeys(names, "working"), {}
        self._facts |= {"phase": phase, "round": round, "since": time.time()}
        self._write_sometimes()

    def now(self, name: str, doing: Doing, why: str = "") -> None:
        """A participant does something else than before.

        Args:
            name: whose it is.
            doing: what it does now.
            why: of one that dropped out.
        """
        self._doing[name] = doing
        if doing == "out":
            self._out[name] = why
        self._write_sometimes()

    def end(self, error: BaseException | None, why: str | None = None) -> None:
        """No round is played any more.

        Args:
            error: what ended the run; None where it came to its end.
            why: why it ended before its last round, if it did.
        """
        if not self._facts:
            return  # it has not begun
        self._facts["state"] = "ended"
        if error is not None:
            known = isinstance(error, KeyboardInterrupt | SystemExit)
            self._facts["state"] = "interrupted" if known else "failed"
            why = None if known else f"{type(error).__name__}: {error}"
        self._facts["why"] = why or ""
        self._write()

    def _write_sometimes(self) -> None:
        if time.monotonic() - self._written >= PAUSE:
            self._write()

    def _write(self) -> None:
        working = [name for name, doing in self._doing.items() if doing == "working"]
        counts = dict(Counter(self._doing.values()))
        out = dict(list(self._out.items())[:SHOWN])
        content = {**self._facts, "now": time.time(), "doing": counts, "working": working[:SHOWN], "out": out}
        draft = self._path.with_name(f".{self._path.name}.unfinished")
        try:
            draft.write_text(json.dumps(content), encoding="utf-8")
            draft.replace(self._path)
        except OSError:
            pass  # it can be played, but not be watched
        self._written = time.monotonic()
