"""Checkpoints: written whole or not at all, checked before they are used, never unpickled.

A checkpoint is a folder with ``tensors.safetensors``, ``state.json`` and ``manifest.json``, which holds the checksums
of the others and the fingerprint of the federation. What need not be in memory at once, such as the states of all
participants, is in shards: files of a few entries each. The folder is written under another name and renamed when
complete.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from potluck.core.errors import PotluckError
from potluck.runs.provenance import version_of_potluck
from potluck.runs.serialization import pack, read_state, save_state, unpack

log = logging.getLogger(__name__)

FORMAT = 3
"""The number of the format that is written and read."""
READERS = {2: "commit d526047, of version 0.1.0"}
"""What reads a format that this version no longer reads."""
SHARD = 32
"""How many entries of a mapping go into one file."""
ATTEMPTS = 3
"""How often checkpoints that somebody else writes meanwhile are looked for."""
KEPT = 2
"""How many checkpoints stay on disk: the newest, and one in case it is damaged."""

Fingerprint = dict[str, str]
"""Checksums, by name, of everything that decides a federation's result: a checkpoint belongs to one fingerprint."""


UNREADABLE = (SafetensorError, ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError)
"""What reading raises where something else stands than what was written. RecursionError is one of the last kind."""


class CheckpointError(PotluckError):
    """A checkpoint that cannot be used."""


class OtherFederationError(CheckpointError):
    """A checkpoint of another federation.

    Args:
        text: which one, and that it is another's.
        different: the names of what differs.
    """

    def __init__(self, text: str, different: list[str]) -> None:
        super().__init__(f"{text} Resume with the settings and data it was started with, or choose another folder.")
        self.text, self.different = text, different


class DamagedError(CheckpointError):
    """A checkpoint that is incomplete or was changed after it was written."""


def write(folder: Path, round: int, state: Any, fingerprint: Fingerprint) -> None:
    """Adds the checkpoint of one round, and removes the oldest.

    A mapping in the state that is no dict makes its entries when asked for: these are written a few at a time.
    """
    target, draft = folder / f"round-{round:08d}", folder / "unfinished"
    for leftover in (draft, target):
        remove(leftover)
    draft.mkdir(parents=True)
    long = {key: part for key, part in state.items() if isinstance(part, Mapping) and not isinstance(part, dict)}
    shards = {key: _write_shards(draft, key, part) for key, part in long.items()}
    tensors, skeleton = pack({**state, **shards})
    save_file(tensors, draft / "tensors.safetensors")
    (draft / "state.json").write_text(json.dumps(skeleton, allow_nan=False))
    manifest = {
        "format": FORMAT,
        "potluck": version_of_potluck(),
        "round": round,
        "federation": fingerprint,
        "in shards": list(shards),
        "sha256": {path.name: _checksum(path) for path in sorted(draft.iterdir())},
    }
    (draft / "manifest.json").write_text(json.dumps({**manifest, "own sha256": _digest(manifest)}, indent=1))
    for path in (*draft.iterdir(), draft):
        sync(path)
    draft.rename(target)
    sync(folder)
    for old in _stored(folder)[:-KEPT]:
        remove(old)


def _write_shards(folder: Path, key: str, part: Mapping[str, Any]) -> list[list[str]]:
    """Writes the entries of a mapping, a few to each file, and returns their names, file by file."""
    names = list(part)
    shards = [names[start : start + SHARD] for start in range(0, len(names), SHARD)]
    for number, shard in enumerate(shards):
        save_state(_shard(folder, key, number), {name: part[name] for name in shard})
    return shards


def _shard(folder: Path, key: str, number: int) -> Path:
    return folder / f"{key}-{number:05d}.safetensors"


class Shards(Mapping[str, Any]):
    """Entries that are read when asked for, one file of them at a time.

    Args:
        folder: where the files are.
        key: the entry that they are parts of.
        shards: the names in each file.
    """

    def __init__(self, folder: Path, key: str, shards: list[list[str]]) -> None:
        self._files = {name: _shard(folder, key, number) for number, shard in enumerate(shards) for name in shard}
        self._open: tuple[Path | None, dict[str, Any]] = (None, {})

    def __getitem__(self, name: str) -> Any:
        if self._files[name] != self._open[0]:
            self._open = (None, {})  # its memory first
            try:
                self._open = (self._files[name], read_state(self._files[name]))
            except (OSError, *UNREADABLE) as error:
                raise CheckpointError(f"{self._files[name]} cannot be read: {_said(error)}.") from error
        return self._open[1][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def read_newest(folder: Path, fingerprint: Fingerprint) -> tuple[int, Any] | None:
    """The round and state of the newest checkpoint that is whole; None if there is none at all.

    A damaged one is named and set aside, and the one before it is used. One of another federation is an error.
    """
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; expected a folder with checkpoints. Start again in a new folder.")
    stored = _stored(folder)
    for path in reversed(stored):
        try:
            return _read(path, fingerprint)
        except DamagedError as error:
            aside = path.with_name(path.name.replace("round-", "damaged-"))
            remove(aside)
            path.rename(aside)
            log.warning("%s Kept as %s; using the checkpoint before it.", error, aside.name)
    if stored:
        raise CheckpointError(f"Every checkpoint in {folder} is damaged; start again in a new folder.")
    return None


def read_latest(folder: Path, fingerprint: Fingerprint, may_differ: Collection[str] = ()) -> tuple[int, Any] | None:
    """The round and state of the newest checkpoint that is whole, in a folder that stays as it is, even in use.

    Args:
        folder: where they are.
        fingerprint: what it must belong to.
        may_differ: what of the fingerprint may be another one all the same; by default nothing.
    """
    for attempt in range(ATTEMPTS):
        for path in reversed(_stored(folder)):
            try:
                return _read(path, fingerprint, may_differ)
            except DamagedError:
                continue  # or whoever writes here has just removed it
        if attempt < ATTEMPTS - 1 and _stored(folder):
            time.sleep(0.1)
    return None


def fingerprint_of(folder: Path) -> Fingerprint:
    """What the newest checkpoint says that it belongs to; nothing where there is none, or it cannot be read."""
    for path in reversed(_stored(folder)):
        try:
            return dict(json.loads((path / "manifest.json").read_text())["federation"])
        except (OSError, *UNREADABLE):
            continue
    return {}


def newest(folder: Path, round: int) -> int | None:
    """The round of the newest checkpoint up to a round."""
    return max((number for number in map(_number, _stored(folder)) if number <= round), default=None)


def read_until(folder: Path, round: int, fingerprint: Fingerprint) -> tuple[int, Any] | None:
    """The newest checkpoint up to a round, which must be whole. Later ones stay."""
    earlier = [path for path in _stored(folder) if _number(path) <= round]
    return _read(earlier[-1], fingerprint) if earlier else None


def forget_from(folder: Path, round: int) -> None:
    """Removes the checkpoints of a round and of all after it, the last one first."""
    for path in reversed(_stored(folder)):
        if _number(path) >= round:
            remove(path)


def _read(path: Path, fingerprint: Fingerprint, may_differ: Collection[str] = ()) -> tuple[int, Any]:
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        if manifest.pop("own sha256") != _digest(manifest):
            raise ValueError("it is not what was written")
        known, sums, number = manifest["federation"], manifest["sha256"], manifest["round"]
        if not (isinstance(known, dict) and isinstance(sums, dict) and type(number) is int):
            raise ValueError("it is not what was written")
    except (OSError, *UNREADABLE) as error:
        raise DamagedError(f"Checkpoint {path.name} has no readable manifest: {_said(error)}.") from error
    if (found := manifest.get("format")) != FORMAT:
        reader = READERS.get(found) if isinstance(found, int) else None
        raise CheckpointError(
            f"Checkpoint {path} has format {found!r}; this version of Potluck reads format {FORMAT} only. "
            + (
                f"Potluck at {reader}, reads format {found}: use it to "
                if reader
                else f"Use {_writer(manifest)}, which wrote it, to "
            )
            + "finish the run, or start again in a new folder."
        )
    names = {*known, *fingerprint} - set(may_differ)
    different = sorted(name for name in names if known.get(name) != fingerprint.get(name))
    if different:
        told = f"Checkpoint {path} belongs to another federation: {', '.join(different)} differ."
        raise OtherFederationError(told, different)
    for name in {"state.json", "tensors.safetensors", *sums}:
        if not (path / name).is_file() or _checksum(path / name) != sums.get(name):
            raise DamagedError(f"Checkpoint {path.name} is damaged: {name} is not what was written.")
    try:
        tensors = load_file(path / "tensors.safetensors")
        state = unpack(tensors, json.loads((path / "state.json").read_text()))
        return number, {**state, **{key: Shards(path, key, state[key]) for key in manifest["in shards"]}}
    except UNREADABLE as error:
        raise DamagedError(f"Checkpoint {path.name} is damaged: {_said(error)}.") from error


def _writer(manifest: Mapping[str, Any]) -> str:
    """What wrote a checkpoint, as it says itself."""
    version = manifest.get("potluck")
    return f"Potluck {version}" if isinstance(version, str) and version.isprintable() else "the version of Potluck"


def _stored(folder: Path) -> list[Path]:
    return sorted((path for path in folder.glob("round-*") if re.fullmatch(r"round-\d{8}", path.name)), key=_number)


def _number(path: Path) -> int:
    return int(path.name.removeprefix("round-"))


def remove(path: Path) -> None:
    """Removes a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _said(error: BaseException) -> str:
    return (
        f"{type(error).__name__}: {error}" if isinstance(error, KeyError | TypeError | AttributeError) else str(error)
    )


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
