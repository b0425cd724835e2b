"""The participant's side of Flower: its own process, and a node that passes messages to it."""

from __future__ import annotations

import logging
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from potluck.core.errors import PayloadError, PotluckError
from potluck.core.history import readable_bytes
from potluck.core.metrics import readable, title
from potluck.flower.client import Client
from potluck.flower.node import FORGOTTEN, LET_IN, RECEIVED, SENT
from potluck.flower.processes import HERE, Program, environment
from potluck.flower.protocol import (
    MAX_HEAD_BYTES,
    Advance,
    Evaluate,
    Evaluated,
    ExchangeReached,
    Invitation,
    Message,
    Paused,
    PhaseEnded,
    PublicData,
    read_request,
    read_response,
)

log = logging.getLogger(__name__)

REFUSED = "Exit Code: 305"
"""What a node logs when the server does not let it in."""
ALREADY_IN = "[code: 2004]"
"""What the server says of a key it does not know, and of one whose node it believes to be there already."""
RETRY_TIMEOUT = 75.0
"""Seconds until the server has noticed that a node is gone which could not say so."""


FAREWELL_TIMEOUT = 600.0
"""Seconds after which a server that does not answer, when all rounds are over, is believed to have ended."""

Ending = Literal["told", "missed", "silent"]


class TryAgainError(PotluckError):
    """The server did not let the node in, but it may do so when it has noticed that an earlier start is over."""


class LocalSocket:
    """A socket in a folder that only this user can enter, where the node hands messages over.

    Args:
        max_payload_bytes: how many bytes a payload of the server's may have.
    """

    def __init__(self, max_payload_bytes: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="potluck-"))  # mode 0700
        self.address = str(self._folder / "socket")
        self._max_bytes = max_payload_bytes + 2**20  # what is a little larger is refused by the client, with a word
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen()
        self._socket.settimeout(0.5)

    def answer_one(self, client: Client, report: Callable[[str], None]) -> bool:
        """Answers a message, if one comes soon."""
        try:
            accepted, _ = self._socket.accept()
        except TimeoutError:
            return False
        with Connection(accepted.detach()) as connection:
            try:
                head = connection.recv_bytes(MAX_HEAD_BYTES)
                asked = Message.decode(head, connection.recv_bytes(self._max_bytes))
                report(_request_line(asked))
                answer = client.answer(asked)
                connection.send_bytes(answer.encoded_head())
                connection.send_bytes(answer.body)
                report(_response_line(answer))
            except (EOFError, OSError, PayloadError) as error:
                log.warning("A message was lost: %s", error)
        return True

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class SuperNode:
    """The program that is connected to the server for this participant.

    Args:
        server: the address of the server, as HOST:PORT.
        address: where the participant's process listens.
        home: a folder for its log.
        certificates: a file with the authority that signed the server's certificate; None without TLS.
        key: a file with the participant's private key; None without keys.
        max_payload_bytes: how many bytes a payload of the server's may have.
    """

    def __init__(
        self, server: str, address: str, home: Path, certificates: str | None, key: str | None, max_payload_bytes: int
    ) -> None:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        most = max_payload_bytes + 2 * MAX_HEAD_BYTES
        command = [sys.executable, "-P", str(HERE / "node.py"), "--server", server, "--socket", address]
        self._contact = home / "contact"
        command += ["--most", str(most), "--contact", str(self._contact)]
        command += [] if certificates is None else ["--root-certificates", certificates]
        command += [] if key is None else ["--key", key]
        self._server = server
        self._log = home / "supernode.log"
        self._log.unlink(missing_ok=True)
        self._program = Program(command, environment(home), self._log)

    def check(self) -> None:
        """Raises if it has ended: it should not by itself."""
        if self._program.ended is None:
            return
        logged = self._program.tail(200)
        if FORGOTTEN in logged:
            raise TryAgainError(
                f"{FORGOTTEN} Another one answers at {self._server}, or the clock of this machine is ahead of its."
            )
        if REFUSED not in logged:
            raise PotluckError(f"Flower's node ended ({self._program.ended}). Its log:\n{self._program.tail(40)}")
        lines = [line.strip() for line in logged.splitlines()]
        reason = next((line for line in lines if "[SSL" in line or line.startswith("[code")), "see its log")
        if "[SSL" in reason:
            raise PotluckError(
                f"The certificate of the server at {self._server} was refused: {reason} Someone else may be answering "
                f"there; or `root_certificates` is of another authority, or the certificate is for other host names."
            )
        kind = TryAgainError if ALREADY_IN in reason else PotluckError
        raise kind(
            f"The server at {self._server} did not let this machine in: {reason} Give the public half of your key to "
            f"those who run the server; and see that no other machine uses the key, nor an earlier start of this one."
        )

    def contact(self) -> float:
        """When the server has answered last, in seconds since 1970; 0 if it never has."""
        return self._contact.stat().st_mtime if self._contact.exists() else 0.0

    def is_let_in(self) -> bool:
        """Whether it has reached the server and was let in."""
        return LET_IN in self._log.read_text(errors="replace")

    def wait_until_sent(self, timeout: float = 10.0) -> None:
        """Waits for the last answer to go out."""
        until = time.monotonic() + timeout
        while time.monotonic() < until and self._program.ended is None:
            lines = [line for line in self._program.tail(60).splitlines() if RECEIVED in line or SENT in line]
            if lines and SENT in lines[-1]:
                return
            time.sleep(0.2)

    def stop(self) -> None:
        self._program.stop()


def participate(
    client: Client,
    server: str,
    home: Path,
    *,
    certificates: str | None = None,
    key: str | None = None,
    max_payload_bytes: int,
    server_timeout: float = inf,
    report: Callable[[str], None] = log.info,
    check: Callable[[], None] = lambda: None,
    ask: Callable[[], None] = lambda: None,
) -> Ending:
    """Answers the server's messages until the federation has ended, or an invitation to it was declined.

    Returns whether the server has said so ("told"), or has gone: after all rounds ("missed"), or before ("silent").

    Args:
        client: answers them.
        server: the address of the server, as HOST:PORT.
        home: a folder for the node's log.
        certificates: a file with the authority that signed the server's certificate; by default no TLS.
        key: a file with the participant's private key; by default none.
        max_payload_bytes: how many bytes a payload of the server's may have.
        server_timeout: how many seconds a server that does not answer is waited for; by default for ever.
        report: is given a line for everything that happens; by default the log.
        check: called where this may end, to raise if it is to; by default it is not.
        ask: called where the server turned the node away, to raise with the reason if it knows; by default it does not.
    """
    local, began, warned = LocalSocket(max_payload_bytes), time.monotonic(), False
    heard_at = time.time()
    (home / "contact").unlink(missing_ok=True)
    try:
        while not client.is_done:
            node = SuperNode(server, local.address, home, certificates, key, max_payload_bytes)
            try:
                while not client.is_done:
                    check()
                    if local.answer_one(client, report):
                        began, heard_at = time.monotonic(), time.time()
                    else:
                        node.check()
                        silent = time.time() - max(heard_at, node.contact())
                        if client.played_all and silent > FAREWELL_TIMEOUT:
                            return "missed"
                        if silent > server_timeout:
                            return "silent"
                        if not warned and time.monotonic() - began > 20 and not node.is_let_in():
                            warned = True
                            report(f"{server} cannot be reached yet; trying on. Is it up, and with TLS as you are?")
                node.wait_until_sent()
            except TryAgainError as error:
                ask()
                if time.monotonic() - began > RETRY_TIMEOUT:
                    raise
                report(f"{error} Trying again.")
                for _ in range(50):
                    check()
                    time.sleep(0.1)
            finally:
                node.stop()
    finally:
        local.close()
    return "told"


def _request_line(message: Message) -> str:
    """What the owner reads when a request has come."""
    asked, size = read_request(message), readable_bytes(len(message.body))
    if isinstance(asked, Advance):
        where = "joining" if asked.phase == "join" else f"round {asked.round}"
        received = f", received {size}" if message.body else ""
        return f"{where}: the server asks for step {asked.step}{received}"
    if isinstance(asked, Invitation):
        return "the server invites"
    if isinstance(asked, Evaluate):
        return "the server asks for an evaluation"
    if isinstance(asked, Paused):
        return "the server stops for now"
    return f"received the public data, {size}" if isinstance(asked, PublicData) else "the federation has ended"


def _response_line(message: Message) -> str:
    """What the owner reads when an answer was given."""
    answer = read_response(message)
    if isinstance(answer, ExchangeReached):
        return f"sent {readable_bytes(len(message.body))} ({answer.exchange}) after {answer.seconds:.1f} s of work"
    if isinstance(answer, PhaseEnded | Evaluated) and answer.metrics:
        known = [
            f"{title(name)} {readable(name, value)}" for name, value in answer.metrics.items() if value is not None
        ]
        return f"sent metrics: {', '.join(known) or 'there are none'}"
    return f"answered: {answer.kind}"
