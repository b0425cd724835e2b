"""Run folders that somebody has changed: at random, and with checksums made to fit."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

JUNK = [
    b"",
    b"\0" * 20,
    b"\xff\xfe",
    b"[]\n",
    b"{}\n",
    b"null\n",
    b"[" * 100_000,
    b'{"a":' * 3000,
    b"1e999",
    b"NaN\n",
    b"9" * 5000,
]
VALUES: list[Any] = [None, [], {}, "x", 1e10, -1, True, ["a"], {"a": 1}, {"../../x": "y"}, [[[]]]]
PACKED: list[Any] = [None, [], {}, "x", {"dict": {}}, {"list": []}, {"tensor": "none"}, {"a": 1, "b": 2}, -1]
NAMES = ("round-abc", "round-", "round-00000009", "round-00000002.bak", "unfinished", "damaged-00000003")


def tamper(folder: Path, draw: random.Random) -> str:
    """Changes something in a run folder, and says what."""
    how = draw.choice(WAYS)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    file = draw.choice(files)
    how(folder, file, draw)
    return f"{how.__name__} {file.relative_to(folder)}"


def replaced(folder: Path, file: Path, draw: random.Random) -> None:
    file.write_bytes(draw.choice((b"", file.read_bytes())) + draw.choice(JUNK))


def cut(folder: Path, file: Path, draw: random.Random) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: draw.randrange(len(data) + 1)])


def flipped(folder: Path, file: Path, draw: random.Random) -> None:
    data = bytearray(file.read_bytes())
    for _ in range(draw.choice((1, 1, 4))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(bytes(data))


def removed(folder: Path, file: Path, draw: random.Random) -> None:
    file.unlink()


def of_another_kind(folder: Path, file: Path, draw: random.Random) -> None:
    file.unlink()
    file.mkdir() if draw.random() < 0.7 else file.symlink_to("/nonexistent")


def lines_moved(folder: Path, file: Path, draw: random.Random) -> None:
    path = folder / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    way = draw.randrange(4)
    if way == 0:
        del lines[one]
    elif way == 1:
        lines.insert(one, lines[other])
    elif way == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        row = json.loads(lines[one])
        row[draw.choice(list(row))] = draw.choice(VALUES)
        lines[one] = json.dumps(row).encode() + b"\n"
    path.write_bytes(b"".join(lines))


def swapped(folder: Path, file: Path, draw: random.Random) -> None:
    other = draw.choice([path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"])
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def without_a_folder(folder: Path, file: Path, draw: random.Random) -> None:
    gone = draw.choice([path for path in sorted(folder.rglob("*")) if path.is_dir()])
    shutil.rmtree(gone)
    if draw.random() < 0.5:
        gone.write_bytes(b"x")


def with_a_stranger(folder: Path, file: Path, draw: random.Random) -> None:
    (folder / "checkpoints" / draw.choice(NAMES)).mkdir(exist_ok=True)


def manifest_forged(folder: Path, file: Path, draw: random.Random) -> None:
    def change(manifest: dict[str, Any]) -> None:
        name = draw.choice(sorted(manifest))
        manifest[name] = draw.choice(VALUES)
        if draw.random() < 0.3:
            del manifest[name]

    forged(draw.choice(sorted(folder.glob("checkpoints/*"))), change)


def state_forged(folder: Path, file: Path, draw: random.Random) -> None:
    checkpoint = draw.choice(sorted(folder.glob("checkpoints/*")))
    path, roll = checkpoint / "state.json", draw.random()
    if roll < 0.2:
        path = draw.choice(sorted(checkpoint.glob("*.safetensors")))
    if roll < 0.4:
        path.write_bytes(draw.choice(JUNK))
    else:
        state = json.loads(path.read_text())
        state["dict"][draw.choice([name for name in sorted(state["dict"]) if name != "history"])] = draw.choice(PACKED)
        path.write_text(json.dumps(state))
    forged(checkpoint, lambda manifest: manifest["sha256"].update({path.name: _sum(path.read_bytes())}))


def forged(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes a checkpoint's manifest, and makes its checksum fit."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["own sha256"]
    change(manifest)
    own = _sum(json.dumps(manifest, sort_keys=True).encode())
    path.write_text(json.dumps({**manifest, "own sha256": own}))


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


WAYS: list[Callable[[Path, Path, random.Random], None]] = [
    replaced,
    cut,
    flipped,
    removed,
    of_another_kind,
    lines_moved,
    swapped,
    without_a_folder,
    with_a_stranger,
    manifest_forged,
    state_forged,
]
