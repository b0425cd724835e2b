"""The server's gateway: sends messages to participants over Flower's grid, and brings their answers.

It knows which node is which participant: by its key, or without keys by the name it gives. It invites whoever comes,
also in the middle of a run, and sends a message again to a participant that was started again: the same request gets
the same answer, so sending it twice does no harm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message as FlowerMessage
from flwr.serverapp import Grid

from potluck.channel.audit_log import AuditLog
from potluck.channel.limits import Limits
from potluck.core.duration import readable_duration
from potluck.core.errors import PayloadError, PotluckError
from potluck.core.harmless import one_line
from potluck.flower.app.potluck_app.records import from_records, to_records
from potluck.flower.bell import Bell
from potluck.flower.message_notes import note_message
from potluck.flower.protocol import (
    Accepted,
    Acknowledged,
    Invitation,
    Message,
    PublicData,
    Response,
    read_response,
)
from potluck.flower.roster import Roster
from potluck.flower.slow_answers import SLOW_AFTER, SlowAnswers
from potluck.flower.status import StatusBoard

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.25
"""Seconds between two looks for answers, where nothing tells that one has come."""
SWEEP_INTERVAL = 5.0
"""Seconds between two looks for all answers, where something tells which have come."""
NODE_INTERVAL = 1.0
"""Seconds between two looks for nodes."""
RETRY_DELAY = 2.0
"""Seconds before a message that did not arrive is sent again."""


KEY_REVOKED = "its key was revoked"
"""Why a participant is out whose key is not let in any more."""


class StoppedError(PotluckError):
    """The run was stopped from outside."""


@dataclass(frozen=True)
class NoAnswer:
    """Why there is no answer.

    Args:
        reason: why.
    """

    reason: str


@dataclass
class _Pending:
    """A message that was sent and not answered."""

    node: int
    since: str
    message: Message
    name: str | None = None
    """Whom it is for; None for an invitation to a node that has not given its name."""
    late: bool = False
    """Whether nobody waits for the answer any more."""


class Gateway:
    """Messages to participants by name.

    Args:
        grid: Flower's grid.
        names: who may take part.
        invitation: what every node that comes is asked first.
        public: the public data as they travel, for those who have no copy; by default empty.
        keys: each participant's public key. None: a node is who it says it is, if nobody else is.
        limits: how large a payload may be; by default ``Limits()``.
        report: is given a line for everything that happens; by default the log.
        stopped: says whether the run is to stop; by default never.
        check: says what is wrong with what a participant said when it accepted; by default nothing is.
        audit_log: where it notes what was asked of whom and what came; by default nowhere.
        bell: tells which messages have been answered; by default all are asked for again and again.
        board: where it is kept who does what; by default nowhere.
        shut_out: says who may not take part any more, since their keys were revoked; by default nobody.
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
        report: Callable[[str], None] = log.info,
        stopped: Callable[[], bool] = lambda: False,
        check: Callable[[Accepted], str | None] = lambda accepted: None,
        audit_log: AuditLog | None = None,
        bell: Bell | None = None,
        board: StatusBoard | None = None,
        shut_out: Callable[[], Collection[str]] = lambda: (),
    ) -> None:
        self._roster = Roster(names, keys, check, report, board)
        self.connections, self.declined = self._roster.connections, self._roster.declined
        self.limits = limits or Limits()
        self._grid = grid
        self._terms, self._invitation = invitation, invitation.message()
        self._public = PublicData().message(public)
        self._report = report
        self._stopped = stopped
        self._board = board
        self._audit_log = audit_log
        self._bell = bell
        self._answered: list[str] = []
        """The messages whose answers have come and are not fetched yet, as far as the bell tells."""
        self._swept_at = float("-inf")
        self._shut_out = shut_out
        self.heard: set[str] = set()
        """Who has answered, however late, since this was looked at."""
        self._pending: dict[str, _Pending] = {}
        self._nodes_seen_at = float("-inf")
        self._not_before: dict[str, float] = {}

    def is_connected(self, name: str) -> bool:
        """Whether a participant has accepted and its node is there."""
        return self._roster.is_connected(name)

    def refuse(self, name: str, reason: str) -> None:
        """Takes back that a participant may take part."""
        self._roster.refuse(name, reason)

    def wait_until(self, enough: Callable[[], bool], timeout: float | None) -> None:
        """Waits until enough have come; not longer than some seconds."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while not enough() and time.monotonic() < until:
            for _ in self._poll():
                pass
            self._rest()

    def probe(self, name: str, message: Message) -> None:
        """Sends a message whose answer nobody waits for, unless one is on its way: what comes, comes late."""
        if self.is_connected(name) and not any(pending.name == name for pending in self._pending.values()):
            self._send(self.connections[name].node, message, name)
            for pending in self._pending.values():
                pending.late = pending.late or pending.name == name

    def ask(
        self, messages: Mapping[str, Message], timeouts: Mapping[str, float], wait_on: Callable[[int], bool]
    ) -> Iterator[tuple[str, Message, Response | NoAnswer]]:
        """Sends a message to each, and yields the answers as they come, with the message that carries them.

        Args:
            messages: what is sent, by name.
            timeouts: after how many seconds each is given up.
            wait_on: of how many have not answered, whether they are waited for all the same.
        """
        began, unanswered, slow = time.monotonic(), dict(messages), SlowAnswers(timeouts)
        while unanswered:
            for name, message in unanswered.items():
                may_send = time.monotonic() > self._not_before.get(name, 0.0)
                if may_send and self.is_connected(name) and not self._is_pending(name):
                    self._send(self.connections[name].node, message, name, began + timeouts[name])
                    self._roster.tell(name, "working")
            for pending, message, response in self._poll():
                name = str(pending.name)
                if pending.message is unanswered.get(name):
                    del unanswered[name]
                    slow.took.append(time.monotonic() - began)
                    yield name, message, response
                else:
                    self._report(f"{name} answered late; its answer is ignored")
            waited = time.monotonic() - began
            for name in slow.among(unanswered, waited) if waited > SLOW_AFTER else ():
                self._report(
                    f"{name} is slow: it was asked {readable_duration(waited)} ago, and is waited for "
                    f"{readable_duration(timeouts[name] - waited)} more"
                )
            for revoked in set(unanswered) & set(self._shut_out()):
                del unanswered[revoked]
                yield revoked, Message(), NoAnswer(KEY_REVOKED)
            over = [name for name in unanswered if waited > timeouts[name]]
            if over and not wait_on(len(over)):
                for name in over:
                    del unanswered[name]
                    yield name, Message(), self._gave_up(name, timeouts[name])
            if unanswered:
                self._rest()

    def _rest(self) -> None:
        """Until an answer comes, but not long."""
        if self._bell is None:
            time.sleep(POLL_INTERVAL)
        else:
            self._answered += self._bell.wait(2 * POLL_INTERVAL)

    def _gave_up(self, name: str, timeout: float) -> NoAnswer:
        """Why there is no answer. What comes all the same is late."""
        for pending in self._pending.values():
            pending.late = pending.late or pending.name == name
        return NoAnswer(f"no answer within {timeout:.3g} s" if self.is_connected(name) else "it is not there")

    def broadcast(self, message: Message, timeout: float, only_connected: bool = True) -> None:
        """Sends a message to all who are there, or also to who comes back in time, and waits for it to arrive."""
        names = [name for name in self.connections if self.is_connected(name) or not only_connected]
        for _ in self.ask(dict.fromkeys(names, message), dict.fromkeys(names, timeout), lambda _: False):
            pass

    def take_leave(self, message: Message, timeout: float, only_connected: bool = False) -> None:
        """Broadcasts the last message, also where the run is to stop."""
        self._stopped = lambda: False
        self.broadcast(message, timeout, only_connected)

    def _is_pending(self, name: str) -> bool:
        connection = self.connections[name]
        awaited = [pending for pending in self._pending.values() if pending.name == name and not pending.late]
        return any((pending.node, pending.since) == (connection.node, connection.since) for pending in awaited)

    def _send(self, node: int, message: Message, name: str | None, until: float | None = None) -> None:
        ttl = None if until is None else max(until - time.monotonic(), 0) + 60
        since = self._roster.since(node)
        records = to_records(message.encoded_head().decode(), message.body)
        sent = self._grid.push_messages([FlowerMessage(records, node, "query", ttl=ttl)])
        identity = next(iter(sent), None)
        if identity is not None and since is not None:
            self._note("sent", name or f"node {node}", message)
            self._pending[identity] = _Pending(node, since, message, name)
        elif name is not None:  # as when the node has just gone
            self._not_before[name] = time.monotonic() + RETRY_DELAY

    def _poll(self) -> Iterator[tuple[_Pending, Message, Response | NoAnswer]]:
        """Looks for nodes and answers once. What belongs to coming in is dealt with here."""
        if self._stopped():
            raise StoppedError("stopped")
        if self._board is not None:
            self._board.refresh()
        if time.monotonic() - self._nodes_seen_at > NODE_INTERVAL:
            self._refresh_nodes()
        identities, self._answered = self._answered, []
        if self._bell is None or time.monotonic() - self._swept_at > SWEEP_INTERVAL:
            identities, self._swept_at = list(self._pending), time.monotonic()
        for identity in identities:
            if identity not in self._pending:
                continue
            for answer in self._grid.pull_messages([identity]):  # one at a time: each may be a whole model
                pending = self._pending.pop(answer.metadata.reply_to_message_id, None)
                if pending is not None:
                    yield from self._received(pending, answer)

    def _refresh_nodes(self) -> None:
        """Sees which nodes are there, and invites those that are new or were started again."""
        self._nodes_seen_at = time.monotonic()
        for revoked in self._shut_out():
            if self.declined.get(revoked) != KEY_REVOKED:
                self.refuse(revoked, KEY_REVOKED)
        for node, name in self._roster.look(self._grid.get_nodes()):
            self._send(node, self._invitation, name)
        # What was sent to a node that is gone or was started again will not be answered.
        for identity, pending in list(self._pending.items()):
            if self._roster.since(pending.node) != pending.since:
                del self._pending[identity]

    def _received(
        self, pending: _Pending, answer: FlowerMessage
    ) -> Iterator[tuple[_Pending, Message, Response | NoAnswer]]:
        """An answer, checked. Whoever could not be reached is asked again while there is time."""
        invited = pending.message is self._invitation
        if answer.has_error():
            log.warning("Node %d could not be reached: %s", pending.node, one_line(str(answer.error.reason))[:500])
            if invited:
                self._roster.invite_again(pending.node)
            elif pending.name is not None:
                self._not_before[pending.name] = time.monotonic() + RETRY_DELAY
            return
        try:
            message = self._read(answer)
            response = read_response(message)
            self._roster.check_name(pending.node, pending.name, response.name)
            self._note("received", response.name, message)
        except PayloadError as error:
            self._note("refused", pending.name or f"node {pending.node}", pending.message, str(error))
            self._report(f"{pending.name or f'node {pending.node}'} sent what cannot be read: {error}")
            if pending.name is not None and not invited:
                yield pending, Message(), NoAnswer(str(error))
            return
        self.heard.add(response.name)
        if invited:
            connection = self._roster.invitation_answered(pending.node, pending.since, response)
            if connection is not None and not connection.has_public and self._public.body:
                connection.public_bytes += len(self._public.body)
                self._send(pending.node, self._public, response.name)
        elif pending.message is self._public:
            if (connection := self.connections.get(response.name)) is not None:
                connection.has_public = isinstance(response, Acknowledged)
        else:
            if self.is_connected(response.name):
                self._roster.tell(response.name, "here")
            yield pending, message, response

    def _note(self, what: str, name: str, message: Message, why: str | None = None) -> None:
        if self._audit_log is not None:
            body = b"" if why else message.body
            note_message(self._audit_log, what, name, self._terms, message.head, body, why)

    def _read(self, answer: FlowerMessage) -> Message:
        """The message in one of Flower's, if it is one and not too large."""
        try:
            head, body = from_records(answer.content)
        except ValueError as error:
            raise PayloadError(f"what came is no message: {error}") from error
        self.limits.check_size(len(body))
        return Message.decode(head, body)
