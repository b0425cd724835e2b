"""A participant's node: hands each message of the server's to the participant's process, and sends its answer back.

Run as a program. It is connected as Flower's own SuperNode is, by Flower's functions; but that one starts a process for
each message, looks for messages every few seconds, and runs the app that the server names. Here one process does all,
and nothing that the server sends is run: its app is not even fetched. No message is read here, and no torch imported.
"""

from __future__ import annotations

import signal
import sys
import time
from argparse import ArgumentParser
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_connection import http_request_response

from potluck.flower.app.potluck_app.records import from_records, to_records
from potluck.flower.guarded_grid import size_of

LET_IN = "Connected as node"
"""What is logged when the server has let the node in."""
RECEIVED, SENT = "Received message", "Sent the answer"
"""What is logged when a message has come in, and when an answer has gone out."""
FORGOTTEN = "The server does not know this machine, or not any more."
"""What is logged before the program ends, since nothing that it asks for would be answered."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.05, 3.0
"""Seconds between two looks for messages, where the server does not have us wait for one."""
HELD = 0.5
"""Seconds after which an empty answer shows that the server has had us wait."""


class Node:
    """What passes between the server and the participant's process.

    Args:
        connection: Flower's functions for one node, as its ``http_request_response`` gives them.
        address: the socket where the participant's process listens.
        most: how many bytes a message may have.
        contact: a file that is touched whenever the server has answered.
    """

    def __init__(self, connection: Any, address: str, most: int, contact: Path) -> None:
        self._contact = contact
        number, self._receive, self._send, _, _, self._pull, self._push, self._confirm = connection
        self._address, self._most, self._pause = address, most, SHORTEST_PAUSE
        TaskIdentity.node_id, TaskIdentity.task_id = number, 0  # of whom messages are made here

    def step(self) -> None:
        """Answers a message, or waits a little for one."""
        began = time.monotonic()
        try:
            found = self._receive()
            self._contact.touch()
            if found is not None:
                self._pause = SHORTEST_PAUSE
                self._answer(*found)
                return
        except RunNotRunningException:
            say("The run is over; what belongs to it is not answered.")
        if time.monotonic() - began > HELD:
            self._pause = SHORTEST_PAUSE
        else:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _answer(self, announced: Message, tree: Any) -> None:
        """Fetches a message, hands it over, and sends what comes back."""
        about, began = announced.metadata, time.monotonic()
        TaskIdentity.run_id = about.run_id
        try:
            head, body = from_records(self._fetched(about.run_id, tree).content)
            say(f"{RECEIVED} {about.message_id}")
            reply = Message(to_records(*self._handed_over(head, body)), reply_to=announced)
        except (ObjectPullError, httpx.HTTPStatusError) as error:
            say(f"Message {about.message_id} cannot be fetched: {error}")
            return
        except (EOFError, ValueError, TypeError) as error:
            say(f"Message {about.message_id} is not answered: {error!r}")
            reply = Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, type(error).__name__), reply_to=announced)
        try:
            self._sent(about.run_id, reply, time.monotonic() - began)
            self._contact.touch()
        except httpx.HTTPStatusError as error:
            say(f"The answer to {about.message_id} cannot be sent: {error}")

    def _fetched(self, run: int, tree: Any) -> Message:
        """A message with its content, unless it is larger than it may be."""
        sizes: list[int] = []

        def pull(piece: str) -> bytes:
            content: bytes = self._pull(run, piece)
            sizes.append(len(content))
            if sum(sizes) > self._most:
                raise ObjectPullError(piece, f"the message has more than {self._most} bytes")
            return content

        pieces = pull_objects([each.object_id for each in iterate_object_tree(tree)], pull)
        self._confirm(run, tree.object_id)
        if (size := size_of(pieces)) > self._most:
            raise ValueError(f"it has {size} bytes when it is put together; the limit is {self._most}")
        message = inflate_object_from_contents(tree.object_id, pieces)
        if not isinstance(message, Message):
            raise TypeError(f"it is a {type(message).__name__}")
        return message

    def _handed_over(self, head: str, body: bytes) -> tuple[str, bytes]:
        """What the participant's process answers, however long it works. Nothing is unpickled on either side."""
        with Client(self._address, family="AF_UNIX") as connection:
            connection.send_bytes(head.encode())
            connection.send_bytes(body)
            return connection.recv_bytes().decode(), connection.recv_bytes()

    def _sent(self, run: int, reply: Message, seconds: float) -> None:
        """Sends an answer: what it is made of, and the pieces that the server does not have."""
        reply.metadata.__dict__["_message_id"] = reply.object_id
        with no_object_id_recompute():
            wanted, session = self._send(reply, get_object_tree(reply), seconds)
            pieces = get_all_nested_objects(reply)
            push_objects(pieces, partial(self._push, run, session), object_ids_to_push=wanted)
        say(SENT)


def say(line: str) -> None:
    """Writes a line with the time to the log of this program."""
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}", flush=True)


def private_key(path: Path) -> EllipticCurvePrivateKey:
    """The node's key, as Flower takes it."""
    key = load_ssh_private_key(path.read_bytes(), None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise ValueError(f"{path} is no key on an elliptic curve")
    return key


def _leave(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT:  # which is how Flower's functions say that the server does not know who asks
        say(FORGOTTEN)
    sys.exit(0 if number == signal.SIGTERM else 1)


def main() -> None:
    """Stays connected until it is told to leave, and takes leave of the server then."""
    parser = ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("--contact", type=Path, required=True)
    parser.add_argument("--root-certificates")
    parser.add_argument("--key", type=Path)
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    key = None if given.key is None else private_key(given.key)
    insecure = given.root_certificates is None
    keys = None if key is None else (key, key.public_key())
    with http_request_response(given.server, insecure, given.root_certificates, keys) as connection:
        say(f"{LET_IN} {connection[0]}")
        given.contact.touch()
        node = Node(connection, given.socket, given.most, given.contact)
        while True:
            node.step()
    sys.exit(1)  # Flower's connection has logged the error that ended it


if __name__ == "__main__":
    main()
