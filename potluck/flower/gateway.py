"""The post office on the server: sends letters to participants over Flower's grid, and brings their answers.

It knows which node is which participant: by its key, or without keys by its word. It invites whoever comes, also in
the middle of a run, and sends a letter again to a participant that was started again: the same request gets the same
answer, so sending it twice does no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from potluck.channel.limits import Limits
from potluck.core.errors import PayloadError, PotluckError
from potluck.flower.protocol import (
    Accepted,
    Answer,
    Declined,
    Invitation,
    Letter,
    Noted,
    PublicData,
    read_answer,
)

log = logging.getLogger(__name__)

POLL = 0.25
"""Seconds between two looks for answers."""
LOOK = 1.0
"""Seconds between two looks for nodes."""
AGAIN = 2.0
"""Seconds before a letter that did not arrive is sent again."""
AT_ONCE = 8
"""How many answers are fetched together: no more of them are in memory at a time."""


class StoppedError(PotluckError):
    """The run was stopped from outside."""


@dataclass(frozen=True)
class Failure:
    """Why there is no answer."""

    reason: str


@dataclass
class Guest:
    """A participant that has come: its node, since when, what it told, and what it was sent besides its work."""

    node: int
    since: str
    told: Accepted
    has_public: bool
    bytes_public: int = 0


@dataclass
class _Sent:
    """A message under way."""

    node: int
    since: str
    letter: Letter
    name: str | None = None
    """Whom it is for; None for an invitation to a node that has not said its name."""
    late: bool = False
    """Whether nobody waits for the answer any more."""


class Post:
    """Letters to participants by name.

    ``keys``: each participant's public key; without keys, a node is whom it says it is, if nobody else is.
    """

    def __init__(
        self,
        grid: Grid,
        names: list[str],
        invitation: Invitation,
        *,
        public: bytes = b"",
        keys: Mapping[str, bytes] | None = None,
        limits: Limits | None = None,
        tell: Callable[[str], None] = log.info,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.guests: dict[str, Guest] = {}
        self.declined: dict[str, str] = {}
        self._grid = grid
        self._names = names
        self._invitation = invitation.letter()
        self._public = public
        self._keys = None if keys is None else {key: name for name, key in keys.items()}
        self._limits = limits or Limits()
        self._tell = tell
        self._stopped = stopped
        self._online: dict[int, str] = {}
        self._strangers: set[int] = set()
        self._invited: dict[int, str] = {}
        self._too_soon: dict[int, int] = {}
        """Nodes that gave a name of another node's, which may be what is left of an earlier start: this one."""
        self._sent: dict[str, _Sent] = {}
        self._looked = float("-inf")
        self._not_before: dict[str, float] = {}

    def here(self, name: str) -> bool:
        """Whether a participant has accepted and its node is there."""
        guest = self.guests.get(name)
        return guest is not None and self._online.get(guest.node) == guest.since

    def meet(self, enough: Callable[[], bool], seconds: float | None) -> None:
        """Waits until enough have come; not longer than some seconds."""
        until = float("inf") if seconds is None else time.monotonic() + seconds
        while not enough() and time.monotonic() < until:
            for _ in self._poll():
                pass
            time.sleep(POLL)

    def ask(
        self, letters: Mapping[str, Letter], seconds: float, patient: Callable[[int], bool]
    ) -> Iterator[tuple[str, Letter, Answer | Failure]]:
        """Sends a letter to each, and yields the answers as they come, with the letter that carries them.

        After some seconds those who have not answered are given up, unless ``patient`` of how many they are says to
        wait on.
        """
        until, open_ = time.monotonic() + seconds, dict(letters)
        while open_:
            for name, letter in open_.items():
                rested = time.monotonic() > self._not_before.get(name, 0.0)
                if rested and self.here(name) and not self._under_way(name):
                    self._push(self.guests[name].node, letter, name, until)
            for sent, letter, answer in self._poll():
                name = str(sent.name)
                if sent.letter is open_.get(name):
                    del open_[name]
                    yield name, letter, answer
                else:
                    self._tell(f"{name} answered late; its answer is ignored")
            if open_ and time.monotonic() > until and not patient(len(open_)):
                break
            time.sleep(POLL)
        for sent in self._sent.values():
            sent.late = sent.late or sent.name in open_
        for name in open_:
            gone = "it is not there" if not self.here(name) else f"no answer within {seconds:g} s"
            yield name, Letter(), Failure(gone)

    def tell_all(self, letter: Letter, seconds: float) -> None:
        """Sends a letter to all who are there, and waits a little for it to arrive."""
        here = {name: letter for name in self.guests if self.here(name)}
        for _ in self.ask(here, seconds, lambda _: False):
            pass

    def _under_way(self, name: str) -> bool:
        guest = self.guests[name]
        awaited = [sent for sent in self._sent.values() if sent.name == name and not sent.late]
        return any((sent.node, sent.since) == (guest.node, guest.since) for sent in awaited)

    def _push(self, node: int, letter: Letter, name: str | None, until: float | None = None) -> None:
        ttl = None if until is None else max(until - time.monotonic(), 0) + 60
        message = Message(_sealed(letter), node, "query", ttl=ttl)
        identity = next(iter(self._grid.push_messages([message])), None)
        if identity is not None:
            self._sent[identity] = _Sent(node, self._online[node], letter, name)
        elif name is not None:  # as when the node has just gone
            self._not_before[name] = time.monotonic() + AGAIN

    def _poll(self) -> Iterator[tuple[_Sent, Letter, Answer | Failure]]:
        """Looks for nodes and answers once. What belongs to coming in is dealt with here."""
        if self._stopped():
            raise StoppedError("stopped")
        if time.monotonic() - self._looked > LOOK:
            self._look()
        under_way = list(self._sent)
        for first in range(0, len(under_way), AT_ONCE):
            for message in self._grid.pull_messages(under_way[first : first + AT_ONCE]):
                sent = self._sent.pop(message.metadata.reply_to_message_id, None)
                if sent is not None:
                    yield from self._opened(sent, message)

    def _look(self) -> None:
        """Sees which nodes are there, and invites those that are new or were started again."""
        nodes = list(self._grid.get_nodes())
        self._online = {node.node_id: node.last_activated_at for node in nodes}
        self._looked = time.monotonic()
        for node, other in list(self._too_soon.items()):
            if other not in self._online:
                del self._too_soon[node]
                self._invited.pop(node, None)
        keys = {node.node_id: bytes(node.public_key) for node in nodes}
        for node, since in self._online.items():
            if self._invited.get(node) == since or node in self._strangers:
                continue
            name = None
            if self._keys is not None:
                name = self._keys.get(keys[node])
                if name is None:
                    self._strangers.add(node)
                    self._tell(f"node {node} has a key that no participant in the file has; it is not asked")
                    continue
            self._invited[node] = since
            self._push(node, self._invitation, name)
        # What was sent to a node that is gone or was started again will not be answered.
        for identity, sent in list(self._sent.items()):
            if self._online.get(sent.node) != sent.since:
                del self._sent[identity]

    def _opened(self, sent: _Sent, message: Message) -> Iterator[tuple[_Sent, Letter, Answer | Failure]]:
        """An answer, checked. Whoever does not come through to us is asked again while there is time."""
        invited = sent.letter is self._invitation
        if message.has_error():
            log.warning("Node %d could not be reached: %s", sent.node, message.error.reason)
            if invited:
                self._invited.pop(sent.node, None)
            elif sent.name is not None:
                self._not_before[sent.name] = time.monotonic() + AGAIN
            return
        try:
            letter = _opened(message.content, self._limits)
            answer = read_answer(letter)
            self._check_name(sent, answer.name)
            if (other := self._namesake(sent, answer.name)) is not None:
                self._too_soon[sent.node] = other
                raise PayloadError(f"it calls itself {answer.name!r}, and another node does so too")
        except PayloadError as error:
            self._tell(f"{sent.name or f'node {sent.node}'} sent what cannot be read: {error}")
            if sent.name is not None and not invited:
                yield sent, Letter(), Failure(str(error))
            return
        if invited:
            self._invited_answered(sent, answer)
        elif sent.letter.head.get("kind") == PublicData().kind:
            self.guests[answer.name].has_public = isinstance(answer, Noted)
        else:
            yield sent, letter, answer

    def _check_name(self, sent: _Sent, name: str) -> None:
        """A node acts under its own name only."""
        if sent.name is not None and name != sent.name:
            raise PayloadError(f"it calls itself {name!r}")
        if name not in self._names:
            raise PayloadError(f"it calls itself {name!r}, which is no participant in the file")

    def _namesake(self, sent: _Sent, name: str) -> int | None:
        """Without keys, the other node that has a name and is there."""
        other = self.guests.get(name)
        taken = self._keys is None and other is not None and other.node != sent.node and other.node in self._online
        return other.node if taken and other is not None else None

    def _invited_answered(self, sent: _Sent, answer: Answer) -> None:
        name = answer.name
        if isinstance(answer, Accepted):
            known = self.guests.get(name)
            guest = Guest(sent.node, sent.since, answer, answer.has_public)
            if known is not None and known.told.labels != answer.labels:
                self.declined[name] = "its labels are not those it told before"
                self._tell(f"{name} was refused: {self.declined[name]}")
                return
            guest.bytes_public = known.bytes_public if known else 0
            self.guests[name] = guest
            self.declined.pop(name, None)
            self._tell(f"{name} {'is here' if known is None else 'is back'}")
            if not answer.has_public and self._public:
                guest.bytes_public += len(self._public)
                self._push(sent.node, PublicData().letter(self._public), name)
        elif isinstance(answer, Declined):
            self.declined[name] = answer.reason
            self._tell(f"{name} declined: {answer.reason}")
        else:
            self.declined[name] = f"it answered the invitation with {answer.kind!r}"
            self._tell(f"{name} was refused: {self.declined[name]}")


def _sealed(letter: Letter) -> RecordDict:
    """A message's content. As an array, a large body travels in pieces."""
    records: dict[str, Any] = {"head": ConfigRecord({"json": letter.packed().decode()})}
    if letter.body:
        array = Array("uint8", (len(letter.body),), "safetensors", letter.body)
        records["body"] = ArrayRecord({"payload": array})
    return RecordDict(records)


def _opened(content: RecordDict, limits: Limits) -> Letter:
    """The letter in a message, if it is one and not too large."""
    try:
        if set(content) - {"head", "body"}:
            raise PayloadError(f"a message holds {sorted(content)}; expected a head and a body")
        body = content.array_records["body"]["payload"].data if "body" in content else b""
        head = str(content.config_records["head"]["json"])
    except (KeyError, TypeError, AttributeError) as error:
        raise PayloadError(f"a message is no letter: {error!r}") from error
    if len(body) > limits.bytes:
        raise PayloadError(f"the payload has {len(body)} bytes; the limit is {limits.bytes}")
    return Letter.unpacked(head, body)
