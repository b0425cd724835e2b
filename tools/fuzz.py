"""Feeds what is read from others with damaged bytes: payloads, heads of messages and run files. `make fuzz`.

    python -m tools.fuzz --count 1000000 --minutes 30

A crash is an exception other than the one that refuses; a breach is something accepted that its schema does not allow.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from potluck.core.errors import PayloadError, SettingsError
from potluck.core.payload import Payload
from potluck.core.schema import Schema, TensorSpec
from potluck.flower.protocol import Message, PhaseEnded, read_response
from potluck.recipes import read

INTERESTING = [b"", b"\x00", b"\xff" * 8, b"{", b"}", b"[", b"]", b'"', b",", b"-1", b"1e999", b"NaN", b"9" * 400]
"""What is put in the place of something."""

SCHEMA = Schema(
    {"w": TensorSpec((3, 4)), "p": TensorSpec(("rows", 2), low=0, high=1, row_sum=1), "n": TensorSpec((), torch.int64)},
    {"samples": int},
    {"rows": (1, 8)},
)


@dataclass
class Found:
    """What came of it.

    Args:
        outcomes: how many inputs were accepted, and how many refused.
        crashes: exceptions that got out, with an input that caused each.
        breaches: inputs that were accepted and must not be.
        peak: how many bytes of memory were taken beyond what there was.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    crashes: dict[str, bytes] = field(default_factory=dict)
    breaches: list[bytes] = field(default_factory=list)
    peak: int = 0


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Some bytes with a few of them changed, left out, doubled or put in."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(found) + 1)
        way = draw.randrange(5)
        if way == 0 and at < len(found):
            found[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            del found[at : at + draw.choice((1, 2, 8, 64))]
        elif way == 2:
            found[at:at] = found[at : at + draw.choice((1, 8, 64))]
        elif way == 3:
            found[at : at + draw.choice((0, 1, 4))] = draw.choice(INTERESTING)
        else:
            found[:8] = draw.choice((0, 1, len(found), 2**31, 2**63, draw.getrandbits(16))).to_bytes(8, "little")
    return bytes(found)


def payload(data: bytes) -> bool:
    """Reads a payload and checks it; says whether what was accepted is lawful."""
    found = Payload.from_bytes(data)
    SCHEMA.check(found)
    rows, sums = found["p"], found["p"].double().sum(dim=1)
    lawful = found["w"].shape == (3, 4) and bool(torch.isfinite(found["w"]).all()) and 1 <= len(rows) <= 8
    return lawful and bool(((sums - 1).abs() < 0.02).all()) and isinstance(found.facts["samples"], int)


def head(data: bytes) -> bool:
    """Reads the head of an answer; says whether it can be written again."""
    found = read_response(Message.decode(data))
    return bool(found.message().encoded_head())


def run_file(data: bytes, path: Path) -> bool:
    """Reads a run file."""
    path.write_bytes(data)
    read(path)
    return True


def whole() -> tuple[bytes, bytes, bytes]:
    """A payload, the head of an answer and a run file, as they should be."""
    sent = Payload({"w": torch.ones(3, 4), "p": torch.full((5, 2), 0.5), "n": torch.tensor(7)}, {"samples": 12})
    ended = PhaseEnded(
        name="a", phase="round", round=1, step=2, notes={"n": 1}, metrics={"accuracy": 0.5}, seconds=1.0
    ).message()
    settings = b'rounds = 3\nmethod = { name = "CoFED", alpha = 0.3 }\n[data]\nsource = "digits"\n'
    return sent.to_bytes(), ended.encoded_head(), settings


def fuzz(count: int, seconds: float, seed: int = 0) -> Found:
    """Tries so many damaged inputs, or as many as there is time for."""
    draw, found, until = random.Random(seed), Found(), time.monotonic() + seconds
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sent, ended, settings = whole()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.toml"
        kinds: list[tuple[bytes, Callable[[bytes], bool]]] = [
            *[(sent, payload)] * 18,
            (ended, head),
            (settings, lambda data: run_file(data, path)),
        ]
        for _ in range(count):
            if time.monotonic() > until:
                break
            data, reader = draw.choice(kinds)
            data = damaged(data, draw)
            try:
                lawful = reader(data)
            except (PayloadError, SettingsError):
                found.outcomes["refused"] += 1
            except Exception as error:
                found.crashes.setdefault(f"{type(error).__name__}: {error}"[:200], data)
            else:
                found.outcomes["accepted"] += 1
                if not lawful:
                    found.breaches.append(data)
    found.peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = fuzz(given.count, 60 * given.minutes, given.seed)
    print(f"{sum(found.outcomes.values()):,} damaged inputs: {dict(found.outcomes)}, seed {given.seed}")
    print(f"{len(found.crashes)} crashes, {len(found.breaches)} breaches, {found.peak / 2**20:.0f} MiB at most")
    for told, data in found.crashes.items():
        print(f"{told}\n  {data[:400]!r}")
    for data in found.breaches[:5]:
        print(f"accepted: {data[:400]!r}")
    sys.exit(bool(found.crashes or found.breaches))


if __name__ == "__main__":
    main()
