"""Public data on their way: as one payload, whose checksum names them, rows in order."""

from __future__ import annotations

import hashlib

import numpy as np

from potluck.errors import PayloadError
from potluck.payload import Payload
from potluck.seating import Published


def to_payload(shown: Published) -> Payload:
    """Inputs, and labels if there are any."""
    x, y = shown
    return Payload({"x": x}, {} if y is None else {"y": y.tolist()})


def from_payload(payload: Payload) -> Published:
    """The public data that a payload holds."""
    if set(payload.tensors) != {"x"} or set(payload.facts) - {"y"}:
        raise PayloadError(f"expected public data; got {sorted(payload.tensors)} and {sorted(payload.facts)}")
    y = payload.facts.get("y")
    if y is not None and len(y) != len(payload["x"]):
        raise PayloadError(f"{len(payload['x'])} public inputs but {len(y)} labels")
    return payload["x"], None if y is None else np.asarray(y)


def checksum(payload: Payload) -> str:
    """The SHA-256 of a payload as it travels."""
    return hashlib.sha256(payload.to_bytes()).hexdigest()
