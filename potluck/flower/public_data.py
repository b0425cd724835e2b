"""Public data on their way: as one payload, whose checksum names them, rows in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError, PotluckError
from potluck.core.payload import Payload
from potluck.core.samples import SharedData
from potluck.flower.protocol import Announcement


def to_payload(shown: SharedData) -> Payload:
    """Inputs, and labels if there are any."""
    return Payload({"x": shown.x}, {} if shown.y is None else {"y": shown.y.tolist()})


def from_payload(payload: Payload) -> SharedData:
    """The public data that a payload holds."""
    if set(payload.tensors) != {"x"} or set(payload.facts) - {"y"}:
        raise PayloadError(f"expected public data; got {sorted(payload.tensors)} and {sorted(payload.facts)}")
    y = payload.facts.get("y")
    if y is not None and len(y) != len(payload["x"]):
        raise PayloadError(f"{len(payload['x'])} public inputs but {len(y)} labels")
    return SharedData(payload["x"], None if y is None else np.asarray(y))


def checksum(payload: Payload) -> str:
    """The SHA-256 of a payload as it travels."""
    return hashlib.sha256(payload.to_bytes()).hexdigest()


class Copies:
    """The public data on a participant's machine: its owner's copy, or what the server sent, kept in a folder."""

    def __init__(self, folder: Path, load: Callable[[int], SharedData] | None, limits: Limits) -> None:
        self._folder, self._load, self._limits = folder, load, limits

    def find(self, announced: Announcement, seed: int) -> SharedData | None:
        """The data, if they are here; and if they are the server's, with their rows in the same order."""
        if self._load is None:
            path = self._path(announced)
            whole = path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == announced.sha256
            return from_payload(self._limits.read(path.read_bytes())) if whole else None
        shown = self._load(seed)
        found = checksum(to_payload(shown))
        if found != announced.sha256:
            raise PotluckError(
                f"the public data here (SHA-256 {found[:16]}…) are not the server's {announced.source} "
                f"({announced.sha256[:16]}…), or their rows are in another order; load the same, or leave out `public` "
                f"to have them sent"
            )
        return shown

    def keep(self, announced: Announcement | None, body: bytes) -> SharedData:
        """Keeps what the server sent, if it is what it announced."""
        payload = self._limits.read(body)
        if announced is None or checksum(payload) != announced.sha256:
            raise PayloadError("the public data that came are not those that were announced")
        self._path(announced).write_bytes(body)
        return from_payload(payload)

    def _path(self, announced: Announcement) -> Path:
        return self._folder / f"public-{announced.sha256}.safetensors"
