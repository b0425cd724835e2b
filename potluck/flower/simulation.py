"""Participants in Flower's simulation: they live in its workers, on as many machines as Ray has.

A worker holds whichever participants it was handed. One that it has not seen, or that was elsewhere in between, is
taken up from its desk, on a disk that all workers share; what of a round was done elsewhere is played again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from potluck.channel.limits import Limits
from potluck.core.errors import SettingsError
from potluck.engines import Serial, pick_device
from potluck.flower.client import Host
from potluck.flower.config import read_federation, read_participant
from potluck.flower.protocol import Letter


def answer(head: str, body: bytes, run_config: Mapping[str, Any], node_config: Mapping[str, Any]) -> tuple[str, bytes]:
    """What the participant that a simulated node stands for answers to a letter."""
    path = Path(str(run_config["federation"])).resolve()
    os.chdir(path.parent)
    host, state = _host(path, int(node_config["partition-id"]), str(run_config.get("state") or ""))
    letter, invitation = Letter.unpacked(head, body), state / "invitation.json"
    state.mkdir(parents=True, exist_ok=True)
    with FileLock(state / ".lock"):
        if letter.head.get("kind") == "invitation":
            invitation.write_bytes(letter.packed())
        elif invitation.exists():
            host.answer(Letter.unpacked(invitation.read_bytes()))
        answered = host.answer(letter)
    return answered.packed().decode(), answered.body


@lru_cache(maxsize=256)
def _host(path: Path, number: int, state: str) -> tuple[Host, Path]:
    """The number-th participant of a federation file; its own file lies beside it, under its name."""
    names = read_federation(path).names
    if number >= len(names):
        raise SettingsError(f"The simulation has a node {number}; {path} names {len(names)} participants.")
    own = path.parent / f"{names[number]}.toml"
    file = read_participant(own)
    folder = Path(state) / names[number] if state else Path(file.state)
    host = Host(
        file.build(),
        Serial(pick_device(file.device)),
        folder,
        lambda invitation, method: None,
        public=file.public.load if file.public else None,
        allowed=tuple(file.allow),
        limits=Limits(bytes=file.limit),
    )
    return host, folder
