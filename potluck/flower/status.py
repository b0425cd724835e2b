"""How a federation stands, in a file that `potluck status` and the monitor read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from potluck.core.errors import SettingsError

STATUS_FILE = "status.json"
"""The file's name, in the folder ``flower`` of a run folder."""
WRITE_INTERVAL, SIGN_OF_LIFE = 0.5, 10.0
"""Seconds between two writings at least; and at most, so that whoever reads knows that the run is alive."""

ParticipantState = Literal["expected", "here", "working", "away", "declined", "refused"]
RunState = Literal["waiting", "playing", "paused", "finished", "stopped", "failed"]


class ParticipantStatus(BaseModel):
    """What a participant does.

    Args:
        name: its name.
        state: "expected" as long as it was not here, "here", "working" on what it was asked, "away", "declined" or
            "refused".
        since: since when, in seconds since 1970.
        why: why, in words; by default empty.
        round: the round after which its row in the history is of now; by default None.
        bytes_up: how many bytes it has sent so far; by default 0.
        bytes_down: how many bytes it has received so far; by default 0.
    """

    model_config = ConfigDict(extra="ignore")

    name: str
    state: ParticipantState
    since: float
    why: str = ""
    round: int | None = None
    bytes_up: int = 0
    bytes_down: int = 0


class Status(BaseModel):
    """How a federation stands.

    Args:
        state: "waiting" for participants, "playing", "paused", "finished", "stopped" or "failed".
        since: since when, in seconds since 1970.
        why: why, in words; by default empty.
        updated: when this was written.
        study: what the federation's file is called.
        method: the method's name.
        round: how many rounds are over.
        rounds: how many there are in all.
        participants: what each does.
        metric: the name of the first metric; by default None, as long as there is none.
        score: its mean in the last round that is over; by default None.
        score_of: of how many participants; by default 0.
        bytes_up: how many bytes have come in so far; by default 0.
        bytes_down: how many bytes have gone out so far; by default 0.
        seconds_left: about how long the rest takes; by default None, as long as nobody knows.
    """

    model_config = ConfigDict(extra="ignore")

    state: RunState
    since: float
    why: str = ""
    updated: float = 0.0
    study: str
    method: str
    round: int = 0
    rounds: int
    participants: list[ParticipantStatus]
    metric: str | None = None
    score: float | None = None
    score_of: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds_left: float | None = None


class StatusBoard:
    """Keeps the file up to date.

    Args:
        path: the file.
        status: how the federation stands at first.
    """

    def __init__(self, path: Path, status: Status) -> None:
        self.status = status
        self._path, self._changed, self._written_at = path, True, float("-inf")
        self._participants = {each.name: each for each in status.participants}
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

    def run(self, state: RunState, why: str = "") -> None:
        """The run does this from now on; it is written at once."""
        self.status.state, self.status.why, self.status.since = state, why, time.time()
        self.write()

    def participant(self, name: str, state: ParticipantState, why: str = "") -> None:
        """A participant does this from now on."""
        each = self._participants[name]
        if (each.state, each.why) != (state, why):
            each.state, each.why, each.since, self._changed = state, why, time.time(), True

    def refresh(self) -> None:
        """Writes what has changed, but not all the time."""
        age = time.monotonic() - self._written_at
        if (self._changed and age > WRITE_INTERVAL) or age > SIGN_OF_LIFE:
            self.write()

    def write(self) -> None:
        """Writes the file whole."""
        self.status.updated = time.time()
        draft = self._path.with_suffix(".draft")
        draft.write_text(self.status.model_dump_json(indent=1))
        draft.replace(self._path)
        self._changed, self._written_at = False, time.monotonic()


def read_status(path: Path) -> Status:
    """What a status file says."""
    try:
        return Status.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise SettingsError(f"{path} does not say how the federation stands: {error}") from error
