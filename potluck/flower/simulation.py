"""Participants in Flower's simulation: they live in its workers, on as many machines as Ray has.

A worker holds whichever participants it was handed. One that it has not seen, or that was elsewhere in between, is
taken up from its store, on a disk that all workers share; what of a round was done elsewhere is run again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from potluck.core.errors import SettingsError
from potluck.engines import pick_device
from potluck.flower.client import Client
from potluck.flower.config import read_federation, read_participant
from potluck.flower.protocol import Invitation, Message, read_request


@dataclass(frozen=True)
class _Held:
    client: Client
    folder: Path

    def answer(self, message: Message) -> Message:
        """The answer, after the invitation that this or another worker had: an invitation again is quick."""
        invitation = self.folder / "invitation.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".lock"):
            if isinstance(read_request(message), Invitation):
                invitation.write_bytes(message.encoded_head())
            elif invitation.exists():
                self.client.answer(Message.decode(invitation.read_bytes()))
            return self.client.answer(message)


class SimulatedClients:
    """The participants that one worker holds.

    Args:
        capacity: how many it holds at most; the one that was asked longest ago goes first.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._held: OrderedDict[tuple[Path, int, str], _Held] = OrderedDict()

    def answer(
        self, head: str, body: bytes, run_config: Mapping[str, Any], node_config: Mapping[str, Any]
    ) -> tuple[str, bytes]:
        """What the participant that a simulated node stands for answers to a message."""
        path = Path(str(run_config["federation"])).resolve()
        key = path, int(node_config["partition-id"]), str(run_config.get("state") or "")
        if key not in self._held:
            self._held[key] = _take_up(*key)
        held = self._held[key]
        self._held.move_to_end(key)
        if len(self._held) > self._capacity:
            self._held.popitem(last=False)
        answer = held.answer(Message.decode(head, body))
        return answer.encoded_head().decode(), answer.body


def _take_up(path: Path, number: int, state: str) -> _Held:
    """The number-th participant of a server's file; its own file lies beside it, under its name."""
    names = read_federation(path).names
    if number >= len(names):
        raise SettingsError(f"The simulation has a node {number}; {path} names {len(names)} participants.")
    file = read_participant(path.parent / f"{names[number]}.toml")
    folder = path.parent / state / names[number] if state else Path(file.state_dir)
    client = Client(
        file.build(),
        pick_device(file.device),
        folder,
        lambda invitation, method: None,
        public=file.public.load if file.public else None,
        allow_imports=tuple(file.allow_imports),
        max_payload_bytes=file.max_payload_bytes,
    )
    return _Held(client, folder)


CLIENTS = SimulatedClients()
"""Those of this process: Flower calls the ClientApp anew for every message, and nothing else lasts."""
