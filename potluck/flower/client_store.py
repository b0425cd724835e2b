"""What a participant stores on its own disk, so that neither its end nor the server's loses anything.

A folder for each federation: the state after each of the last two rounds, and the messages of the last two phases, so
that a repeated request is answered from what was stored, and a half that was cut off is run again up to that point.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from potluck.core.exchange_order import Phase
from potluck.federation.participant import State
from potluck.flower.protocol import Message
from potluck.runs import checkpoint
from potluck.runs.checkpoint import Fingerprint

COURSE = "course.json"
"""What answers that are stored were given to."""
PHASES_KEPT = 2
"""How many phases' messages stay on disk."""


class ClientStore:
    """The folder of one participant in one federation.

    Args:
        folder: where it is; made if it is not there.
        fingerprint: what the participant and the method are: stored states of another one are refused, and answers of
            another one are forgotten.
        public: the checksum of the public data, on which answers depend, too; by default there are none.
    """

    def __init__(self, folder: Path, fingerprint: Fingerprint, public: str = "") -> None:
        self.folder = folder
        self._states = folder / "states"
        self._messages = folder / "messages"
        self._fingerprint = fingerprint
        private_folder(folder)
        course = json.dumps([fingerprint, public], sort_keys=True).encode()
        if (told := folder / COURSE).exists() and told.read_bytes() != course:
            shutil.rmtree(self._messages, ignore_errors=True)
        write_whole(told, course)
        private_folder(self._messages)

    def keep_state(self, round: int, state: State) -> None:
        """Stores the state after a round (0: after joining)."""
        checkpoint.write(self._states, round, state, self._fingerprint)

    def newest_state(self, round: int) -> int | None:
        """The last round up to this one after which the state was stored: whoever sat out some has an earlier one."""
        return checkpoint.newest(self._states, round)

    def state_after(self, round: int) -> State | None:
        """The newest state up to a round."""
        found = checkpoint.read_until(self._states, round, self._fingerprint)
        return None if found is None else found[1]

    def keep_answer(self, phase: Phase, round: int, step: int, request: bytes, answer: Message) -> None:
        """Stores what was asked and answered at a step."""
        folder = self._folder_of(phase, round)
        private_folder(folder)
        write_whole(folder / f"{step}.request", request)
        head = answer.encoded_head()
        write_whole(folder / f"{step}.answer", len(head).to_bytes(8, "big") + head + answer.body)
        for old in sorted(self._messages.iterdir())[:-PHASES_KEPT]:
            shutil.rmtree(old)

    def answer_to(self, phase: Phase, round: int, step: int, request: bytes) -> Message | None:
        """The answer that was given to this very request, if it is still here."""
        path = self._folder_of(phase, round) / f"{step}.answer"
        if not path.exists() or _digest(path.with_suffix(".request").read_bytes()) != _digest(request):
            return None
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "big")
        return Message.decode(data[8 : 8 + length], data[8 + length :])

    def forget_from(self, phase: Phase, round: int, step: int) -> None:
        """Deletes everything from a step on: what follows from another request is of another course.

        A later request may be equal and its answer not, since it depends on all requests before it. The last goes
        first, so that whoever is cut off here begins here again.
        """
        current = self._folder_of(phase, round)
        for later in sorted(self._messages.iterdir(), reverse=True):
            if later.name > current.name:
                shutil.rmtree(later)
        checkpoint.forget_from(self._states, round)
        for stored in current.glob("*"):
            if int(stored.name.split(".")[0]) >= step:
                stored.unlink()

    def follows(self, phase: Phase, round: int, step: int) -> bool:
        """Whether a step was asked for before, or is the next one. Stored steps have no gaps."""
        return step == 0 or (self._folder_of(phase, round) / f"{step - 1}.request").exists()

    def requests(self, phase: Phase, round: int, count: int) -> list[bytes]:
        """The bodies of the first few requests of a phase, which must be here."""
        return [(self._folder_of(phase, round) / f"{step}.request").read_bytes() for step in range(count)]

    def _folder_of(self, phase: Phase, round: int) -> Path:
        return self._messages / f"{round:08d}-{phase}"


def private_folder(path: Path) -> None:
    """Makes a folder that its owner alone may enter, whatever it was before."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.chmod(0o700)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    draft = path.with_name(path.name + ".unfinished")
    draft.touch(mode=0o600)
    draft.chmod(0o600)
    with draft.open("wb") as file:
        file.write(data)
    draft.replace(path)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()
