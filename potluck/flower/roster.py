"""Who is there: which node is which participant, who has accepted, declined, was refused, left and came back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from potluck.core.errors import PayloadError
from potluck.flower.protocol import Accepted, Declined, Response
from potluck.flower.status import ParticipantState, StatusBoard

log = logging.getLogger(__name__)


@dataclass
class Connection:
    """A participant that has accepted.

    Args:
        node: the number of its node.
        since: when the node was started.
        accepted: what it said when it accepted.
        has_public: whether it needs no copy of the public data any more.
        public_bytes: how many bytes of public data were sent to it and are not in the history yet; by default 0.
    """

    node: int
    since: str
    accepted: Accepted
    has_public: bool
    public_bytes: int = 0


class Roster:
    """Participants by name, and the nodes that act for them.

    Args:
        names: who may take part.
        keys: each participant's public key. None: a node is who it says it is, if nobody else is.
        check: says what is wrong with what a participant said when it accepted.
        report: is given a line for everything that happens.
        board: where it is kept who does what since when; by default nowhere.
    """

    def __init__(
        self,
        names: list[str],
        keys: Mapping[str, bytes] | None,
        check: Callable[[Accepted], str | None],
        report: Callable[[str], None],
        board: StatusBoard | None = None,
    ) -> None:
        self.connections: dict[str, Connection] = {}
        self.declined: dict[str, str] = {}
        self._names, self._check, self._report, self._board = names, check, report, board
        self._keys = None if keys is None else {key: name for name, key in keys.items()}
        self._online: dict[int, str] = {}
        self._unknown: set[int] = set()
        self._invited: dict[int, str] = {}
        self._conflicts: dict[int, int] = {}
        """Nodes that gave a name of another node's, which may be what is left of an earlier start: this one."""
        self._away: set[str] = set()
        """Who has accepted and is not there now."""

    def is_connected(self, name: str) -> bool:
        """Whether a participant has accepted and its node is there."""
        connection = self.connections.get(name)
        return connection is not None and self._online.get(connection.node) == connection.since

    def since(self, node: int) -> str | None:
        """When a node was started; None if it is not there."""
        return self._online.get(node)

    def tell(self, name: str, state: ParticipantState, why: str = "") -> None:
        """Keeps what a participant does from now on."""
        if self._board is not None:
            self._board.participant(name, state, why)

    def look(self, nodes: Iterable[Any]) -> Iterator[tuple[int, str | None]]:
        """Takes in which nodes are there; gives those to invite, with the participant's name where a key tells it."""
        found = {node.node_id: node for node in nodes}
        self._online = {number: node.last_activated_at for number, node in found.items()}
        for name in self.connections:
            if name not in self._away and not self.is_connected(name):
                self._away.add(name)
                self.tell(name, "away")
                self._report(f"{name} left; it may come back")
        for node, other in list(self._conflicts.items()):
            if other not in self._online:
                del self._conflicts[node]
                self._invited.pop(node, None)
        for node, since in self._online.items():
            if self._invited.get(node) == since or node in self._unknown:
                continue
            owner = None if self._keys is None else self._keys.get(bytes(found[node].public_key))
            if self._keys is not None and owner is None:
                self._unknown.add(node)
                self._report(f"node {node} has a key that no participant in the file has; it is not asked")
                continue
            self._invited[node] = since
            yield node, owner

    def invite_again(self, node: int) -> None:
        """The invitation has not reached a node."""
        self._invited.pop(node, None)

    def check_name(self, node: int, expected: str | None, name: str) -> None:
        """A node acts under its own name only."""
        if expected is not None and name != expected:
            raise PayloadError(f"it calls itself {name!r}")
        if name not in self._names:
            raise PayloadError(f"it calls itself {name!r}, which is no participant in the file")
        other = self.connections.get(name)
        if self._keys is None and other is not None and other.node != node and other.node in self._online:
            self._conflicts[node] = other.node
            raise PayloadError(f"it calls itself {name!r}, and another node does so too")

    def invitation_answered(self, node: int, since: str, response: Response) -> Connection | None:
        """Takes in how somebody answers the invitation; gives the connection of one that takes part."""
        name = response.name
        if isinstance(response, Declined):
            self.declined[name] = response.reason
            self.tell(name, "declined", response.reason)
            self._report(f"{name} declined: {response.reason}")
            return None
        if not isinstance(response, Accepted):
            self._refused(name, f"it answered the invitation with {response.kind!r}")
            return None
        known = self.connections.get(name)
        task = response.task, response.settings
        if known is not None and (known.accepted.task, known.accepted.settings) != task:
            self._refused(name, "its task is not the one it gave before")
            return None
        if (wrong := self._check(response)) is not None:
            self.refuse(name, wrong)
            return None
        connection = Connection(node, since, response, response.has_public, known.public_bytes if known else 0)
        self.connections[name] = connection
        self.declined.pop(name, None)
        self._away.discard(name)
        self.tell(name, "here")
        self._report(f"{name} {'is here' if known is None else 'is back'}")
        return connection

    def refuse(self, name: str, reason: str) -> None:
        """Takes back that a participant may take part."""
        self.connections.pop(name, None)
        self._refused(name, reason)

    def _refused(self, name: str, reason: str) -> None:
        self.declined[name] = reason
        self.tell(name, "refused", reason)
        self._report(f"{name} was refused: {reason}")
