"""Public data as they travel: one payload, whose checksum identifies them, rows in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from potluck.core.errors import PayloadError, PotluckError
from potluck.core.inputs import flat, is_input
from potluck.core.payload import Payload
from potluck.core.samples import Samples, SharedData
from potluck.flower.protocol import PublicDataInfo

FACTS = {"y", "columns"}
"""What public data may say beside their inputs."""


def to_payload(public: SharedData) -> Payload:
    """Inputs, as tensors, and labels if there are any, with the names of their columns."""
    inputs = flat(public.inputs.for_network("public data, which travel as tensors").x)
    named = {"columns": list(public.columns)} if public.columns else {}
    return Payload(inputs, {} if public.y is None else {"y": public.y.tolist(), **named})


def from_payload(payload: Payload) -> SharedData:
    """The public data that a payload holds."""
    names = set(payload.tensors)
    if not names or not all(map(is_input, names)) or ("x" in names and len(names) > 1) or set(payload.facts) - FACTS:
        raise PayloadError(f"expected public data; got {sorted(payload.tensors)} and {sorted(payload.facts)}")
    if len({column.shape[:1] for column in payload.tensors.values()} | {()}) > 2 or not payload[min(names)].ndim:
        raise PayloadError("the inputs of the public data differ in length")
    y, inputs = payload.facts.get("y"), Samples(payload.tensors)
    if y is not None and len(y) != len(inputs):
        raise PayloadError(f"{len(inputs)} public inputs but {len(y)} labels")
    columns = payload.facts.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(name, str | int) for name in columns):
        raise PayloadError("the names of the targets' columns are neither text nor integers")
    return SharedData(inputs, None if y is None else np.asarray(y), columns=tuple(columns))


def checksum(payload: Payload) -> str:
    """The SHA-256 of a payload as it travels."""
    return hashlib.sha256(payload.to_bytes()).hexdigest()


class PublicDataStore:
    """The public data on a participant's machine: its owner's copy, or what the server sent.

    Args:
        folder: where what the server sent is stored.
        load: loads the owner's copy for a seed; None if there is none.
    """

    def __init__(self, folder: Path, load: Callable[[int], SharedData] | None) -> None:
        self._folder, self._load = folder, load

    def find(self, info: PublicDataInfo, seed: int) -> SharedData | None:
        """The data, if they are here; and if they are the server's, with their rows in the same order."""
        if self._load is None:
            path = self._path(info)
            whole = path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == info.sha256
            return from_payload(Payload.from_bytes(path.read_bytes())) if whole else None
        public = self._load(seed)
        found = checksum(to_payload(public))
        if found != info.sha256:
            raise PotluckError(
                f"the public data here (SHA-256 {found[:16]}…) are not the server's {info.source} "
                f"({info.sha256[:16]}…), or their rows are in another order; load the same, or leave out `public` "
                f"to have them sent"
            )
        return public

    def keep(self, info: PublicDataInfo | None, body: bytes) -> SharedData:
        """Stores what the server sent, if it is what it announced."""
        payload = Payload.from_bytes(body)
        if info is None or checksum(payload) != info.sha256:
            raise PayloadError("the public data that came are not those that were announced")
        public = from_payload(payload)
        if (len(public.inputs), public.y is not None) != (info.count, info.labelled):
            found = f"{len(public.inputs)} samples {'without' if public.y is None else 'with'} labels"
            raise PayloadError(f"the public data that came are {found}, not those that were announced")
        self._path(info).write_bytes(body)
        return public

    def _path(self, info: PublicDataInfo) -> Path:
        return self._folder / public_file(info)


def public_file(info: PublicDataInfo) -> str:
    """The name of the file in which a participant stores what a server sent."""
    return f"public-{info.sha256}.safetensors"
