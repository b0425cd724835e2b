"""A grid without processes: messages reach hosts in this one, so that what the engine does can be tested in seconds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from potluck.core.samples import SharedData
from potluck.engines import Serial, pick_device
from potluck.federation.admission import published
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant
from potluck.flower.client import Host
from potluck.flower.consent import settings_of
from potluck.flower.engine import Flower, Rules
from potluck.flower.gateway import Post
from potluck.flower.protocol import PROTOCOL, Announcement, Invitation, Letter
from potluck.flower.public_data import checksum, to_payload
from potluck.flower.remote_participant import Remote

CPU = pick_device("cpu")


class FakeGrid:
    """Nodes by number, each with a host. ``broken``: nodes whose next messages come back as errors."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as in a ServerApp
        self.hosts: dict[int, Any] = dict(enumerate(hosts, start=100))
        self.since = dict.fromkeys(self.hosts, "first")
        self.silent: set[int] = set()
        self.broken: dict[int, int] = {}
        self.pushed: list[tuple[int, dict[str, Any]]] = []
        self._replies: dict[str, Message] = {}
        self._kept: dict[str, Message] = {}

    def get_nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=n, last_activated_at=s, public_key=b"") for n, s in self.since.items()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        identities = []
        for message in messages:
            identity = f"message-{len(self.pushed)}"
            message.metadata.__dict__["_message_id"] = identity
            node = message.metadata.dst_node_id
            letter = opened(message)
            self.pushed.append((node, letter.head))
            identities.append(identity)
            if node in self.silent:
                self._kept[identity] = message
            elif self.broken.get(node, 0) > 0:
                self.broken[node] -= 1
                self._replies[identity] = Message(Error(5, "node unavailable"), reply_to=message)
            else:
                self._deliver(identity, message)
        return identities

    def _deliver(self, identity: str, message: Message) -> None:
        answer = self.hosts[message.metadata.dst_node_id].answer(opened(message))
        self._replies[identity] = Message(sealed(answer), reply_to=message)

    def wake(self, node: int) -> None:
        """A silent node answers everything at last."""
        self.silent.discard(node)
        for identity, message in list(self._kept.items()):
            if message.metadata.dst_node_id == node:
                self._deliver(identity, self._kept.pop(identity))

    def pull_messages(self, identities: Iterable[str]) -> list[Message]:
        return [self._replies.pop(identity) for identity in identities if identity in self._replies]


def sealed(letter: Letter) -> RecordDict:
    records: dict[str, Any] = {"head": ConfigRecord({"json": letter.packed().decode()})}
    if letter.body:
        records["body"] = ArrayRecord({"payload": Array("uint8", (len(letter.body),), "safetensors", letter.body)})
    return RecordDict(records)


def opened(message: Message) -> Letter:
    content = message.content
    body = content.array_records["body"]["payload"].data if "body" in content else b""
    return Letter.unpacked(str(content.config_records["head"]["json"]), body)


def shown_of(public: Any) -> SharedData:
    found = published(public)
    assert found is not None
    return found


def agreed(invitation: Any, method: Any) -> None:
    """An owner who agrees to everything."""


def host(participant: Participant, folder: Path, **settings: Any) -> Host:
    return Host(participant, Serial(CPU), folder / participant.name, settings.pop("consent", agreed), **settings)


def invitation(method: Any, /, *, seed: int = 3, public: Any = None, rounds: int = 9, **more: Any) -> Invitation:
    shown = None
    if public is not None:
        data = shown_of(public)
        shown = Announcement(
            source="made", sha256=checksum(to_payload(data)), labelled=data.y is not None, count=len(data.x)
        )
    facts: dict[str, Any] = {
        "protocol": PROTOCOL,
        "potluck": "0",
        "federation": "0123456789abcdef",
        "method": type(method).__name__,
        "settings": settings_of(method),
        "seed": seed,
        "keep_optimizer": method.keep_optimizer,
        "rounds": rounds,
        "public": shown,
    }
    return Invitation(**{**facts, **more})


def served(
    grid: FakeGrid,
    method: Any,
    names: list[str],
    *,
    seed: int = 3,
    public: Any = None,
    rules: Rules | None = None,
    tell: Any = print,
    weights: dict[str, float] | None = None,
    wait: float = 5.0,
    invite: Invitation | None = None,
    **settings: Any,
) -> Federation:
    """A federation of stand-ins whose participants are behind the grid."""
    asked = invite or invitation(method, seed=seed, public=public)
    body = b"" if public is None else to_payload(shown_of(public)).to_bytes()
    post = Post(grid, names, asked, public=body, tell=tell)  # type: ignore[arg-type]
    post.meet(lambda: all(post.here(name) or name in post.declined for name in names), wait)
    rules = rules or Rules(deadline=5.0)
    like = next(iter(post.guests.values())).told
    told = {name: post.guests[name].told if name in post.guests else None for name in names}
    people = [Remote(name, (weights or {}).get(name, 1.0), told[name], like) for name in names]
    return Federation(people, method, public=public, seed=seed, engine=Flower(post, CPU, rules, tell), **settings)
