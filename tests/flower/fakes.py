"""A grid without processes: messages reach clients in this one, so that tests of the engine take seconds."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import Error
from flwr.app import Message as FlowerMessage
from flwr.supercore.task_identity import TaskIdentity
from sklearn.tree import DecisionTreeClassifier

from potluck.core.history import History
from potluck.core.samples import SharedData
from potluck.engines import pick_device
from potluck.federation.admission import published
from potluck.federation.federation import Federation
from potluck.federation.participant import Participant
from potluck.flower.app.potluck_app.records import from_records, to_records
from potluck.flower.client import Client
from potluck.flower.consent import sent_settings
from potluck.flower.engine import Flower, Rules
from potluck.flower.gateway import Gateway
from potluck.flower.protocol import PROTOCOL, Invitation, Message, PublicDataInfo
from potluck.flower.public_data import checksum, to_payload
from potluck.flower.remote_participant import RemoteParticipant
from potluck.methods import CoFED
from tests import tables
from tests.flower.things import cnn, deep_cnn, mlp

CPU = pick_device("cpu")
PUBLIC = tables.made_data(30, 90)
TEST = tables.made_data(40, 91)


class FakeGrid:
    """Nodes by number, each with a client. ``broken``: nodes whose next messages come back as errors."""

    def __init__(self, clients: Iterable[Client]) -> None:
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1  # as in a ServerApp
        self.clients: dict[int, Any] = dict(enumerate(clients, start=100))
        self.since = dict.fromkeys(self.clients, "first")
        self.silent: set[int] = set()
        self.broken: dict[int, int] = {}
        self.pushed: list[tuple[int, dict[str, Any]]] = []
        self._replies: dict[str, FlowerMessage] = {}
        self._kept: dict[str, FlowerMessage] = {}

    def get_nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=n, last_activated_at=s, public_key=b"") for n, s in self.since.items()]

    def push_messages(self, messages: Iterable[FlowerMessage]) -> list[str]:
        identities = []
        for message in messages:
            identity = f"message-{len(self.pushed)}"
            message.metadata.__dict__["_message_id"] = identity
            node = message.metadata.dst_node_id
            self.pushed.append((node, Message.decode(*from_records(message.content)).head))
            identities.append(identity)
            if node in self.silent:
                self._kept[identity] = message
            elif self.broken.get(node, 0) > 0:
                self.broken[node] -= 1
                self._replies[identity] = FlowerMessage(Error(5, "node unavailable"), reply_to=message)
            else:
                self._deliver(identity, message)
        return identities

    def _deliver(self, identity: str, message: FlowerMessage) -> None:
        answer = self.clients[message.metadata.dst_node_id].answer(Message.decode(*from_records(message.content)))
        records = to_records(answer.encoded_head().decode(), answer.body)
        self._replies[identity] = FlowerMessage(records, reply_to=message)

    def wake(self, node: int) -> None:
        """A silent node answers everything at last."""
        self.silent.discard(node)
        for identity, message in list(self._kept.items()):
            if message.metadata.dst_node_id == node:
                self._deliver(identity, self._kept.pop(identity))

    def pull_messages(self, identities: Iterable[str]) -> list[FlowerMessage]:
        return [self._replies.pop(identity) for identity in identities if identity in self._replies]


def shared(public: Any) -> SharedData:
    """Public data as a federation has them."""
    found = published(public)
    assert found is not None
    return found


def agreed(invitation: Any, method: Any) -> None:
    """An owner who agrees to everything."""


def client_of(participant: Participant, folder: Path, **settings: Any) -> Client:
    """The client of a participant, whose owner agrees unless the settings have another one."""
    return Client(participant, CPU, folder / participant.name, settings.pop("consent", agreed), **settings)


def invitation(method: Any, /, *, seed: int = 3, public: Any = None, rounds: int = 9, **more: Any) -> Invitation:
    """An invitation to a method, with some facts of it changed."""
    info = None
    if public is not None:
        data = shared(public)
        info = PublicDataInfo(
            source="made", sha256=checksum(to_payload(data)), labelled=data.y is not None, count=len(data.inputs)
        )
    facts: dict[str, Any] = {
        "protocol": PROTOCOL,
        "potluck": "0",
        "federation": "0123456789abcdef",
        "method": type(method).__name__,
        "settings": sent_settings(method),
        "seed": seed,
        "keep_optimizer": method.keep_optimizer,
        "rounds": rounds,
        "public": info,
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
    report: Any = print,
    weights: dict[str, float] | None = None,
    join_timeout: float = 5.0,
    invite: Invitation | None = None,
    **settings: Any,
) -> Federation:
    """A federation of stand-ins whose participants are behind the grid."""
    asked = invite or invitation(method, seed=seed, public=public)
    body = b"" if public is None else to_payload(shared(public)).to_bytes()
    gateway = Gateway(grid, names, asked, public=body, report=report)  # type: ignore[arg-type]
    gateway.wait_until(
        lambda: all(gateway.is_connected(name) or name in gateway.declined for name in names), join_timeout
    )
    rules = rules or Rules(answer_timeout=5.0)
    accepted = {name: connection.accepted for name, connection in gateway.connections.items()}
    like = next(iter(accepted.values()))
    people = [RemoteParticipant(name, (weights or {}).get(name, 1.0), accepted.get(name), like) for name in names]
    engine = Flower(gateway, CPU, rules, report)
    return Federation(people, method, public=public, seed=seed, engine=engine, **settings)


def people(method: Any, count: int = 3) -> list[Participant]:
    """Participants whose models the method can use, of different kinds where it allows that."""
    needs = method.requires()
    kinds: list[Any] = [cnn, cnn, cnn] if needs.same_architecture else [cnn, mlp, cnn]
    if needs.stages or needs.convolutions:
        kinds = [deep_cnn, lambda input_shape, classes: deep_cnn(input_shape, classes, 2), deep_cnn]
    settings: dict[str, Any] = {"labels": range(3), "test": TEST}
    made = [
        Participant(f"p{i}", kinds[i], tables.made_data(20 + 7 * i, i), plan=tables.PLAN, **settings)
        for i in range(count)
    ]
    if isinstance(method, CoFED):
        made.append(Participant("tree", DecisionTreeClassifier, tables.made_data(20, 7), **settings))
    return made


def over_flower(method: Any, folder: Path, **settings: Any) -> tuple[Federation, FakeGrid]:
    """A federation of these participants behind a grid, and the grid."""
    own = settings.pop("people", None) or people(method)
    public = PUBLIC if method.requires().public != "nothing" else None
    load = None if public is None else lambda seed: shared(PUBLIC)
    grid = FakeGrid(client_of(p, folder, public=load) for p in own)
    return served(grid, method, [p.name for p in own], public=public, **settings), grid


def on_serial(method: Any, rounds: int = 2, **settings: Any) -> History:
    """What the serial engine makes of the same."""
    public = PUBLIC if method.requires().public != "nothing" else None
    return Federation(people(method), method, public=public, seed=3, engine="serial", **settings).run(rounds)
