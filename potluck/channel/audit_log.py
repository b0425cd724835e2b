"""The audit log: who asked for what, what left and what was refused, in lines that nobody can change unseen.

Each line is JSON and holds the SHA-256 of the line before, so that a line that was changed, left out or put in breaks
the chain. Of payloads it holds names, shapes, sizes and checksums, never a value.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from potluck.core.errors import PayloadError, PotluckError
from potluck.core.payload import DIMENSIONS, read_header

START = "0" * 64
"""What stands for the line before the first one."""
MOST_NAMES, LONGEST_NAME = 50, 200
"""How many tensors and facts of a payload are named, and with how many characters."""

OF_A_RUN = ("federation", "participant")
"""What says whose messages of which run are compared: those that both sides know of."""

Seal = Callable[[bytes], str]
"""Signs a line's checksum."""

LogEntry = dict[str, Any]


class AuditLogError(PotluckError):
    """A log that was changed after it was written, or is none."""


class AuditLog:
    """A log that is only added to.

    Args:
        path: its file; it is made, readable by its owner alone.
        who: whose log it is.
        seal: signs each line; by default nobody does.
    """

    def __init__(self, path: Path, who: str, seal: Seal | None = None) -> None:
        self._path, self._who, self._seal = path, who, seal
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        os.close(descriptor)
        cut_off = _without_unfinished_line(path)
        self._number, self._before = 0, START
        for entry in read(path):
            self._number, self._before = entry["number"], entry["sha256"]
        if cut_off:
            self.note("cut off", bytes=len(cut_off), payload=hashlib.sha256(cut_off).hexdigest())

    def note(self, what: str, **facts: Any) -> None:
        """Adds a line. What is None is left out."""
        entry = {
            "number": self._number + 1,
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "who": self._who,
            "what": what,
            **{name: fact for name, fact in facts.items() if fact is not None},
            "before": self._before,
        }
        entry["sha256"] = digest(entry)
        if self._seal is not None:
            entry["seal"] = self._seal(bytes.fromhex(entry["sha256"]))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._number, self._before = entry["number"], entry["sha256"]


def _without_unfinished_line(path: Path) -> bytes:
    """Takes away what stands after the last whole line: of a line that was being written when the machine went down."""
    data = path.read_bytes()
    kept = data.rfind(b"\n") + 1
    if kept < len(data):
        os.truncate(path, kept)
    return data[kept:]


def digest(entry: LogEntry) -> str:
    """The checksum of a line, without what is made of it."""
    bare = {name: fact for name, fact in entry.items() if name not in ("sha256", "seal")}
    return hashlib.sha256(json.dumps(bare, sort_keys=True).encode()).hexdigest()


def read(path: Path) -> Iterator[LogEntry]:
    """The lines of a log, one after the other. Raises AuditLogError at the first that does not belong to the chain."""
    before = START
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                entry = json.loads(line)
                right = isinstance(entry, dict) and entry["number"] == number and entry["before"] == before
                right = right and line.endswith(b"\n") and entry["sha256"] == digest(entry)
            except (ValueError, KeyError, TypeError, RecursionError):
                right = False
            if not right:
                raise AuditLogError(
                    f"{path}: line {number} is not what was written, or lines are missing before it. What stands above "
                    f"it is whole."
                )
            before = entry["sha256"]
            yield entry


def outline(body: bytes) -> dict[str, list[Any]] | None:
    """What a payload holds, by the header of its safetensors: each tensor's type and shape, and the names of facts."""
    if not body:
        return None
    header, facts = read_header(body)
    first = dict(islice(header.items(), MOST_NAMES))
    if any(len(str(like["dtype"])) > 8 or len(like["shape"]) > DIMENSIONS for like in first.values()):
        raise PayloadError("a tensor has a type or a shape that there is not")
    more = max(0, len(header) - MOST_NAMES) + max(0, len(facts) - MOST_NAMES)
    named = {name: [str(like["dtype"]), *map(int, like["shape"])] for name, like in first.items()}
    named |= {f"fact {name}": [] for name in islice(facts, MOST_NAMES)}
    return {name[:LONGEST_NAME]: like for name, like in named.items()} | ({"…": [f"{more} more"]} if more else {})


def unmatched(some: list[LogEntry], others: list[LogEntry]) -> tuple[list[LogEntry], list[LogEntry]]:
    """Of two sides' logs of one run: what the one side says it sent or received and the other does not, both ways.

    A message that was sent again, or lost on the way, is in one log more often than in the other: payloads are
    compared by their checksums.
    """

    def keys(entries: list[LogEntry]) -> dict[tuple[Any, ...], LogEntry]:
        return {
            tuple(entry.get(name) for name in (*OF_A_RUN, "terms", "phase", "round", "step", "payload")): entry
            for entry in entries
            if entry["what"] in ("sent", "received") and entry.get("payload")
        }

    one, other = keys(some), keys(others)
    runs = {key[:2] for key in one} & {key[:2] for key in other}
    missing = [
        [entry for key, entry in mine.items() if key[:2] in runs and key not in theirs]
        for mine, theirs in ((one, other), (other, one))
    ]
    return missing[0], missing[1]
