"""Both sides of a real federation that say anything: random messages, legal and not, against all of the other side.

A server's half is what runs in Flower's ServerApp, with its gateway and engine; a participant's is its client, with
what it has on disk. Only Flower's programs in between are left out, and the clock, which goes on when nobody answers.

    python -m tests.protocol_fuzzing --messages 100000
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from potluck.core.errors import PotluckError
from potluck.core.payload import Payload
from potluck.flower import engine, gateway
from potluck.flower.client import Client
from potluck.flower.policy import Policy
from potluck.flower.protocol import Evaluate, Finished, Message, Paused, PublicData, read_response
from potluck.flower.server_app import serve
from potluck.methods import MHAT, CoFED, DraftFed, FedAvg, FedIN, PerHeFed
from tests.flower.fakes import PUBLIC, FakeGrid, client_of, people, served
from tests.fuzzing import FACTS, mutated
from tests.tables import PLAN
from tools.fuzz import damaged

METHODS = {
    "FedAvg": (FedAvg(), '"FedAvg"'),
    "FedIN": (FedIN(pairs=6), '{ name = "FedIN", pairs = 6 }'),
    "CoFED": (CoFED(update_batch_size=16), '{ name = "CoFED", update_batch_size = 16 }'),
    "MHAT": (
        MHAT(server_plan=PLAN),
        '{ name = "MHAT", server_plan = { optimizer = "sgd", lr = 0.05, epochs = 2, batch_size = 8 } }',
    ),
    "DraftFed": (
        DraftFed(samples=20, draft_batch_size=16),
        '{ name = "DraftFed", samples = 20, draft_batch_size = 16 }',
    ),
    "PerHeFed": (PerHeFed(intra=0.5), '{ name = "PerHeFed", intra = 0.5 }'),
}
"""Each method as an object, and as a file names it."""

MEMORY = 2**28
"""How many bytes may be taken beyond what an honest run takes: nobody here has a model of a megabyte."""

ODD = (*FACTS, 1e300, "\u200b", "x" * 300, 2**63, [[]] * 5, {"a": {"a": {}}})
PLACES = (0, 1, 2, 3, -1, 2**22, 2**40)
FILE = """
rounds = {rounds}
seed = 3
device = "cpu"
min_participants = 2
join_timeout = 60
answer_timeout = 60
wait_timeout = 60
method = {method}
"""
HONEST, LIARS = ("p0", "p2"), ("p1", "q0", "q1")
"""Who takes part; of one architecture with the first of them is none of the liars alone."""
CODED = """
[channel]
up = ["Quantize"]
down = ["Compress"]
"""
HOW = ("joining", "rounds", "at once")
"""From when on liars lie."""
TOLD = ("seconds", "bytes_down")
"""What of a row says how long it took, and whether public data had been sent before."""


class Escaped(logging.Handler):
    """Keeps what went wrong otherwise than by a refusal: what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(record.exc_info[1])


def patched(patch: pytest.MonkeyPatch) -> Escaped:
    """Has nobody wait for the clock or the disk, and keeps what escapes."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, 0.01)

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    for module in (gateway, engine):
        patch.setattr(module, "time", clock)
    patch.setattr(gateway, "NODE_INTERVAL", 0.0)
    patch.setattr(os, "fsync", lambda descriptor: None)
    escaped, logger = Escaped(), logging.getLogger("potluck")
    patch.setattr(logger, "handlers", [escaped])
    patch.setattr(logger, "propagate", False)
    return escaped


def read(body: bytes) -> Payload:
    """What a message carries, in an order that is the same each time."""
    found = Payload.from_bytes(body) if body else Payload()
    return Payload(dict(sorted(found.tensors.items())), found.facts)


def other_body(body: bytes, draw: random.Random) -> bytes:
    """A payload with something else in it, or damaged bytes."""
    if draw.random() < 0.15:
        return damaged(body or b"nothing", draw)
    try:
        return mutated(read(body), draw).to_bytes()
    except PotluckError:
        return body


def other_head(head: Mapping[str, Any], draw: random.Random) -> dict[str, Any]:
    """A head with a few things in it changed."""
    found: dict[str, Any] = json.loads(json.dumps(head))
    for _ in range(draw.choice((1, 1, 2))):
        names, roll = list(found), draw.random()
        if roll < 0.7 and names:
            _change(found, draw.choice(names), draw)
        elif roll < 0.85 and names:
            del found[draw.choice(names)]
        else:
            found[draw.choice(("x", "kind", "name", "\x1b"))] = draw.choice(ODD)
    return found


def _change(within: dict[str, Any], name: str, draw: random.Random) -> None:
    value = within[name]
    if isinstance(value, dict) and value and draw.random() < 0.8:
        _change(value, draw.choice(list(value)), draw)
    elif isinstance(value, int) and not isinstance(value, bool) and draw.random() < 0.8:
        within[name] = draw.choice((value + 1, value - 1, *PLACES))
    else:
        within[name] = draw.choice((*ODD, [value], {"a": value}))


def sendable(message: Message, instead: Message) -> Message:
    """The message, if it can be written at all."""
    try:
        message.encoded_head()
    except ValueError:
        return instead
    return message


class HostileNode:
    """In the place of a participant: it says what an honest one would, something near to it, or something else.

    Args:
        client: the honest one.
        draw: what all draws derive from.
        how: "joining" if it lies before the first round, too: whoever is refused there is not asked any more; "rounds"
            if it lies in rounds alone; "at once" if it never says anything that could be merged.
    """

    def __init__(self, client: Client, draw: random.Random, how: str) -> None:
        self.client, self.draw, self.how, self.sent = client, draw, how, 0
        self._told: list[Message] = []

    def answer(self, message: Message) -> Message:
        """What it sends."""
        invited = message.head["kind"] == "invitation"
        if self.how == "at once" and not invited:
            return self._nonsense(message)
        honest, draw = self.client.answer(message), self.draw
        self._told.append(honest)
        if self.how != "joining" and (invited or message.head.get("phase") == "join"):
            return honest
        self.sent += 1
        roll, place = draw.random(), {n: honest.head[n] for n in ("phase", "round", "step") if n in honest.head}
        if roll < 0.25:
            return honest
        if roll < 0.55:
            return Message(honest.head, other_body(honest.body, draw))
        if roll < 0.85:
            return sendable(Message(other_head(honest.head, draw), honest.body), honest)
        if roll < 0.95:
            old = draw.choice(self._told)
            return Message(old.head | place if draw.random() < 0.8 else old.head, old.body)
        return self._nonsense(message)

    def _nonsense(self, asked: Message) -> Message:
        """Nothing that anybody could merge."""
        self.sent += self.how == "at once"
        name = self.client.participant.name
        place: dict[str, Any] = {n: asked.head[n] for n in ("phase", "round", "step") if n in asked.head}
        heads: tuple[dict[str, Any], ...] = (
            {},
            {"kind": "failed", "name": name, "error": "x"},
            {"kind": "acknowledged", "name": name},
            {"kind": "exchange", "name": name, **place, "exchange": "nonsense", "seconds": 0.0},
            {"kind": "exchange", "name": HONEST[0], **place, "exchange": "weights", "seconds": 0.0},
        )
        return Message(self.draw.choice(heads), self.draw.randbytes(self.draw.choice((0, 40))))


class ShakyGrid(FakeGrid):
    """A grid in which a liar's answer may never come.

    Args:
        nodes: who answers.
        draw: what all draws derive from.
    """

    def __init__(self, nodes: list[Any], draw: random.Random) -> None:
        super().__init__(nodes)
        self._draw = draw

    def _deliver(self, identity: str, message: Any) -> None:
        hostile = isinstance(self.clients[message.metadata.dst_node_id], HostileNode)
        if not hostile or self._draw.random() > 0.03:
            super()._deliver(identity, message)


class Recorder:
    """Keeps what a participant was asked and answered.

    Args:
        client: the participant's.
    """

    def __init__(self, client: Client) -> None:
        self.client, self.course = client, list[tuple[Message, Message]]()

    def answer(self, message: Message) -> Message:
        """The client's answer."""
        answer = self.client.answer(message)
        self.course.append((message, answer))
        return answer


def honest_course(name: str, folder: Path) -> list[tuple[Message, Message]]:
    """What an honest server asks one participant in two rounds, and the answers."""
    method, _ = METHODS[name]
    public = PUBLIC if method.requires().public != "nothing" else None
    own = quick_people(method)
    recorders: list[Any] = [Recorder(client_of(person, folder)) for person in own]
    grid = FakeGrid(recorders)
    served(grid, method, [person.name for person in own], public=public, report=lambda line: None).run(2)
    course: list[tuple[Message, Message]] = grid.clients[101].course
    return course


class HostileServer:
    """Asks a participant what an honest server would, something near to it, or something else.

    Args:
        course: what an honest one asks, and gets.
        draw: what all draws derive from.
    """

    def __init__(self, course: list[tuple[Message, Message]], draw: random.Random) -> None:
        self._course, self._draw, self._at = course, draw, 0

    def next(self) -> Message:
        """What it asks."""
        draw, roll = self._draw, self._draw.random()
        due = self._course[min(self._at, len(self._course) - 1)][0]
        asked = due if draw.random() < 0.6 else draw.choice(self._course)[0]
        if roll < 0.45:
            return due
        if roll < 0.55:
            return asked
        if roll < 0.8:
            return Message(asked.head, other_body(asked.body, draw))
        if roll < 0.95:
            return sendable(Message(other_head(asked.head, draw), asked.body), asked)
        others = (
            Evaluate(round=draw.choice((0, 1, 2, 3, 2**40))).message(),
            Paused(reason="\x1b[2J").message(),
            Finished(rounds=draw.choice((0, 3))).message(),
            PublicData().message(draw.randbytes(30)),
            Message({}),
            Message({"kind": "advance"}),
        )
        return draw.choice(others)

    def heard(self, asked: Message, answer: Message) -> None:
        """Goes on with the course where it was followed."""
        if answer.head["kind"] == "accepted":
            self._at = 1
        elif asked is self._course[min(self._at, len(self._course) - 1)][0] and answer.head["kind"] != "failed":
            self._at += 1


def same(answer: Message, expected: Message) -> bool:
    """Whether two answers say the same, but for the seconds, and whether public data are here already."""
    heads = [{n: v for n, v in one.head.items() if n not in ("seconds", "has_public")} for one in (answer, expected)]
    return heads[0] == heads[1] and answer.body == expected.body


def quick_people(method: Any) -> list[Any]:
    """Participants who train for an epoch."""
    own = people(method)
    for person in own:
        person.plan = PLAN.replace(epochs=1)
    return own


def fuzz_participant(name: str, messages: int, seed: int, folder: Path) -> int:
    """Asks a participant anything; then it must answer an honest server as if nothing had been. How much was asked."""
    asked, run = 0, 0
    with pytest.MonkeyPatch.context() as patch:
        escaped = patched(patch)
        course, before = honest_course(name, folder / "honest"), peak()
        while asked < messages:
            run += 1
            draw = random.Random(1_000 * seed + run)
            client = client_of(quick_people(METHODS[name][0])[1], folder / str(run), policy=Policy(max_trainings=10**6))
            server = HostileServer(course, draw)
            for _ in range(min(40, messages - asked)):
                message = server.next()
                answer = client.answer(message)
                read_response(Message.decode(answer.encoded_head(), answer.body))
                server.heard(message, answer)
                client.farewell, asked = None, asked + 1
                assert escaped.found == [], (message.head, escaped.found, f"seed {seed}, run {run}")
            for message, expected in course:
                if message.head["kind"] != "finished":
                    assert same(client.answer(message), expected), (message.head, f"seed {seed}, run {run}")
            shutil.rmtree(folder / str(run))
        assert peak() - before < MEMORY
    return asked


def fuzz_server(name: str, messages: int, seed: int, folder: Path) -> int:
    """Has three of five participants say anything; the two others must be as well off as ever. How much was said."""
    said, run = 0, 0
    with pytest.MonkeyPatch.context() as patch:
        escaped = patched(patch)
        alone, _ = play(name, None, "", False, folder / "alone")
        before = peak()
        while said < messages or run < len(HOW):
            run += 1
            draw = random.Random(1_000 * seed + run)
            how, coded, told = HOW[run % len(HOW)], run % 4 == 3, f"{name}, seed {seed}, run {run}"
            rows, sent = play(name, draw, how, coded, folder / str(run))
            said += sent
            assert escaped.found == [], (told, escaped.found)
            honest = [row for row in rows if row["participant"] in HONEST]
            assert [(row["refused"], row["took_part"]) for row in honest] == [(None, True)] * len(honest), told
            if how == "at once" and not coded:
                found, expected = ([{n: v for n, v in r.items() if n not in TOLD} for r in p] for p in (honest, alone))
                assert found == expected[: len(found)], told
            shutil.rmtree(folder / str(run))
        assert peak() - before < MEMORY
    return said


def play(name: str, draw: random.Random | None, how: str, coded: bool, folder: Path) -> tuple[list[Any], int]:
    """The history of a served federation, and how many messages its liars sent.

    Args:
        name: the method's.
        draw: what the liars draw from; None if there are none.
        how: as for ``HostileNode``.
        coded: whether payloads pass through codecs.
        folder: where all is stored.
    """
    method, named = METHODS[name]
    own = [*quick_people(method)[:3], *quick_people(method)[:2]]
    for person, called in zip(own, ("p0", "p1", "p2", "q0", "q1"), strict=True):
        person.name = called
    own = [person for person in own if draw is not None or person.name in HONEST]
    clients: list[Any] = [client_of(person, folder / "states") for person in own]
    nodes: list[Any] = [HostileNode(c, draw, how) if draw and c.participant.name in LIARS else c for c in clients]
    text = FILE.format(rounds=6 if how == "rounds" else 2, method=named)
    if method.requires().public != "nothing":
        text += 'public = { source = "tests.flower.things:public" }\n'
    text += CODED if coded else ""
    text += "".join(f'[[participants]]\nname = "{person.name}"\n' for person in own)
    folder.mkdir(parents=True)
    (folder / "federation.toml").write_text(text)
    out = folder / "run"
    grid: Any = FakeGrid(nodes) if draw is None else ShakyGrid(nodes, draw)
    serve(grid, {"federation": str(folder / "federation.toml"), "out": str(out)})
    lines = (out / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines], sum(node.sent for node in nodes if isinstance(node, HostileNode))


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder that no disk slows down, where there is one."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as folder:
        yield Path(folder)


def main() -> None:
    """The command: so many messages, half from servers and half from participants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    given = parser.parse_args()
    each, total, began = given.messages // (2 * len(given.methods)) + 1, 0, time.monotonic()
    for name in given.methods:
        for half in (fuzz_participant, fuzz_server):
            with in_memory() as folder:
                total += half(name, each, given.seed, folder)
            took = f"{time.monotonic() - began:.0f} s, {peak() / 2**20:.0f} MiB at most"
            print(f"{name}, {half.__name__}: {total:,} messages in all, {took}", flush=True)


if __name__ == "__main__":
    main()
