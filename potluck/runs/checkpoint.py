"""Checkpoints: written whole or not at all, checked before they are used, never unpickled.

One is a folder with ``tensors.safetensors``, ``state.json`` and ``manifest.json``, which holds the checksums of the
others and what federation it belongs to. It is written under another name and renamed when complete.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from potluck.errors import PotluckError
from potluck.runs.state import pack, unpack

log = logging.getLogger(__name__)

FORMAT = 1
KEPT = 2
"""How many checkpoints stay on disk: the newest, and one to fall back to."""

Fingerprint = dict[str, str]
"""What a federation is, in checksums by name: two that differ in any cannot share a checkpoint."""


class CheckpointError(PotluckError):
    """A checkpoint that cannot be used."""


class DamagedError(CheckpointError):
    """A checkpoint that is incomplete or was changed after it was written."""


def write(folder: Path, round: int, state: Any, fingerprint: Fingerprint) -> None:
    """Adds the checkpoint of one round, and lets the oldest go."""
    tensors, skeleton = pack(state)
    target, draft = folder / f"round-{round:08d}", folder / "unfinished"
    for leftover in (draft, target):
        shutil.rmtree(leftover, ignore_errors=True)
    draft.mkdir(parents=True)
    save_file(tensors, draft / "tensors.safetensors")
    (draft / "state.json").write_text(json.dumps(skeleton, allow_nan=False))
    manifest = {
        "format": FORMAT,
        "round": round,
        "federation": fingerprint,
        "sha256": {name: _checksum(draft / name) for name in ("state.json", "tensors.safetensors")},
    }
    (draft / "manifest.json").write_text(json.dumps({**manifest, "own sha256": _digest(manifest)}, indent=1))
    for path in (*draft.iterdir(), draft):
        sync(path)
    draft.rename(target)
    sync(folder)
    for old in _stored(folder)[:-KEPT]:
        shutil.rmtree(old)


def read_newest(folder: Path, fingerprint: Fingerprint) -> tuple[int, Any] | None:
    """The round and state of the newest checkpoint that is whole; None if there is none at all.

    A damaged one is named and set aside, and the one before it is used. One of another federation is an error.
    """
    stored = _stored(folder)
    for path in reversed(stored):
        try:
            return _read(path, fingerprint)
        except DamagedError as error:
            aside = path.with_name(path.name.replace("round-", "damaged-"))
            shutil.rmtree(aside, ignore_errors=True)
            path.rename(aside)
            log.warning("%s Kept as %s; using the checkpoint before it.", error, aside.name)
    if stored:
        raise CheckpointError(f"Every checkpoint in {folder} is damaged; start again in a new folder.")
    return None


def newest(folder: Path, round: int) -> int | None:
    """The round of the newest checkpoint up to a round."""
    numbers = [int(path.name.removeprefix("round-")) for path in _stored(folder)]
    return max((number for number in numbers if number <= round), default=None)


def read_until(folder: Path, round: int, fingerprint: Fingerprint) -> tuple[int, Any] | None:
    """The newest checkpoint up to a round, which must be whole; later ones are of rounds to be played again, and go."""
    earlier = []
    for path in _stored(folder):
        if int(path.name.removeprefix("round-")) > round:
            shutil.rmtree(path)
        else:
            earlier.append(path)
    return _read(earlier[-1], fingerprint) if earlier else None


def _read(path: Path, fingerprint: Fingerprint) -> tuple[int, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        if manifest.pop("own sha256") != _digest(manifest):
            raise ValueError("it is not what was written")
        known, sums, number = manifest["federation"], manifest["sha256"], manifest["round"]
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise DamagedError(f"Checkpoint {path.name} has no readable manifest: {error}.") from error
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"Checkpoint {path} has format {manifest.get('format')!r}; this version of Potluck reads {FORMAT}."
        )
    different = sorted(name for name in {*known, *fingerprint} if known.get(name) != fingerprint.get(name))
    if different:
        raise CheckpointError(
            f"Checkpoint {path} belongs to another federation: {', '.join(different)} differ. "
            f"Resume with the settings and data it was started with, or choose another folder."
        )
    for name in ("state.json", "tensors.safetensors"):
        if not (path / name).is_file() or _checksum(path / name) != sums.get(name):
            raise DamagedError(f"Checkpoint {path.name} is damaged: {name} is not what was written.")
    try:
        tensors = load_file(path / "tensors.safetensors")
        return number, unpack(tensors, json.loads((path / "state.json").read_text()))
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedError(f"Checkpoint {path.name} is damaged: {error}.") from error


def _stored(folder: Path) -> list[Path]:
    return sorted(folder.glob("round-*"))


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Makes sure that a file, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
