"""A participant's desk: what it keeps on its own disk, so that neither its end nor the server's loses anything.

A folder for each federation: the state after each of the last two rounds, and the letters of the last two stages, so
that a repeated request is answered from what was kept, and a half that was cut off is played again up to that point.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from potluck.federation.participant import State
from potluck.flower.protocol import Letter, Stage
from potluck.runs import checkpoint
from potluck.runs.checkpoint import Fingerprint

KEPT = 2
"""How many stages' letters stay on the desk."""


class Desk:
    """The folder of one participant in one federation."""

    def __init__(self, folder: Path, fingerprint: Fingerprint) -> None:
        self.folder = folder
        self._states = folder / "states"
        self._letters = folder / "letters"
        self._fingerprint = fingerprint
        self._letters.mkdir(parents=True, exist_ok=True)

    def keep_state(self, round: int, state: State) -> None:
        """Keeps the state after a round (0: after joining)."""
        checkpoint.write(self._states, round, state, self._fingerprint)

    def newest(self, round: int) -> int | None:
        """The last round up to this one after which the state was kept: whoever sat out some has an earlier one."""
        return checkpoint.newest(self._states, round)

    def state_after(self, round: int) -> State | None:
        """The newest state up to a round. Later ones are let go."""
        found = checkpoint.read_until(self._states, round, self._fingerprint)
        return None if found is None else found[1]

    def keep(self, stage: Stage, round: int, step: int, request: bytes, answer: Letter) -> None:
        """Keeps what was asked and answered at a step."""
        folder = self._stage(stage, round)
        folder.mkdir(exist_ok=True)
        _write(folder / f"{step}.request", request)
        head = answer.packed()
        _write(folder / f"{step}.answer", len(head).to_bytes(8, "big") + head + answer.body)
        for old in sorted(self._letters.iterdir())[:-KEPT]:
            shutil.rmtree(old)

    def answered(self, stage: Stage, round: int, step: int, request: bytes) -> Letter | None:
        """The answer that was given to this very request, if it is still here."""
        path = self._stage(stage, round) / f"{step}.answer"
        if not path.exists() or _digest(path.with_suffix(".request").read_bytes()) != _digest(request):
            return None
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "big")
        return Letter.unpacked(data[8 : 8 + length], data[8 + length :])

    def forget_from(self, stage: Stage, round: int, step: int) -> None:
        """Lets go of all from a step on: what follows from another request is of another course.

        A later request may be equal and its answer not, since it depends on all requests before it. The last goes
        first, so that whoever is cut off here begins here again.
        """
        here = self._stage(stage, round)
        for later in sorted(self._letters.iterdir(), reverse=True):
            if later.name > here.name:
                shutil.rmtree(later)
        checkpoint.forget_from(self._states, round)
        for kept in here.glob("*"):
            if int(kept.name.split(".")[0]) >= step:
                kept.unlink()

    def follows(self, stage: Stage, round: int, step: int) -> bool:
        """Whether a step was asked for before, or is the next one. Kept steps have no gaps."""
        return step == 0 or (self._stage(stage, round) / f"{step - 1}.request").exists()

    def requests(self, stage: Stage, round: int, count: int) -> list[bytes]:
        """The bodies of the first few requests of a stage, which must be here."""
        return [(self._stage(stage, round) / f"{step}.request").read_bytes() for step in range(count)]

    def _stage(self, stage: Stage, round: int) -> Path:
        return self._letters / f"{round:08d}-{stage}"


def _write(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    draft = path.with_name(path.name + ".unfinished")
    with draft.open("wb") as file:
        file.write(data)
    draft.replace(path)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
