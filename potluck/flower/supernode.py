"""The participant's side of Flower: its own process, and a SuperNode that carries letters to it."""

from __future__ import annotations

import logging
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from potluck.core.errors import PayloadError, PotluckError
from potluck.core.history import readable_bytes
from potluck.flower.client import Host
from potluck.flower.processes import HERE, Program, environment, free_port, only_our_app
from potluck.flower.protocol import Letter

log = logging.getLogger(__name__)

REFUSED = "Exit Code: 305"
"""What Flower's SuperNode logs when the server does not let it in."""
LET_IN = "SuperNode ID:"
"""What it logs when it was let in."""
ALREADY_IN = "[code: 2004]"
"""What the server says of a key it does not know, and of one whose node it believes to be there already."""
STILL_THERE = 75.0
"""Seconds until the server has noticed that a node is gone which could not say so."""
SENT = "Sent successfully"
"""What it logs when an answer has gone out."""


class NotYetError(PotluckError):
    """The server did not let the node in, but it may do so when it has noticed that an earlier start is over."""


class Mailbox:
    """A socket in a folder that only this user can enter, where the ClientApp hands letters over."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="potluck-"))  # mode 0700
        self.address = str(self._folder / "letters")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.address)
        self._socket.listen()
        self._socket.settimeout(0.5)

    def answer_one(self, host: Host, tell: Callable[[str], None], limit: int) -> bool:
        """Answers a letter, if one comes soon."""
        try:
            connected, _ = self._socket.accept()
        except TimeoutError:
            return False
        with Connection(connected.detach()) as carrier:
            try:
                asked = Letter.unpacked(carrier.recv_bytes(), carrier.recv_bytes(limit + 2**20))
                tell(_told_request(asked))
                answer = host.answer(asked)
                carrier.send_bytes(answer.packed())
                carrier.send_bytes(answer.body)
                tell(_told_answer(answer))
            except (EOFError, OSError, PayloadError) as error:
                log.warning("A letter was lost: %s", error)
        return True

    def close(self) -> None:
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Node:
    """A SuperNode that runs nothing but potluck's own thin ClientApp."""

    def __init__(self, server: str, mailbox: Mailbox, home: Path, certificates: str | None, key: str | None) -> None:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = environment(home)
        settings["PATH"] = f"{only_our_app(home / 'bin')}:{settings['PATH']}"
        command = [
            sys.executable,
            "-P",
            str(HERE / "verified_supernode.py"),
            "--superlink",
            server,
            "--port",
            str(free_port()),
        ]
        command += ["--insecure"] if certificates is None else ["--root-certificates", certificates]
        command += [] if key is None else ["--auth-supernode-private-key", key]
        command += ["--node-config", f'potluck-socket="{mailbox.address}"']
        self._server = server
        self._log = home / "supernode.log"
        self._log.unlink(missing_ok=True)
        self._program = Program(command, settings, self._log)

    def check(self) -> None:
        """Raises if it has ended: it should not by itself."""
        if self._program.ended is None:
            return
        said = self._program.tail(200)
        if REFUSED not in said:
            raise PotluckError(f"Flower's node ended ({self._program.ended}). What it says:\n{self._program.tail(40)}")
        lines = [line.strip() for line in said.splitlines()]
        reason = next((line for line in lines if "[SSL" in line or line.startswith("[code")), "see its log")
        if "[SSL" in reason:
            raise PotluckError(
                f"The certificate of the server at {self._server} was refused: {reason} Someone else may be answering "
                f"there; or `root_certificates` is of another authority, or the certificate is for other host names."
            )
        kind = NotYetError if ALREADY_IN in reason else PotluckError
        raise kind(
            f"The server at {self._server} did not let this machine in: {reason} Give the public half of your key to "
            f"those who run the server; and see that no other machine uses the key."
        )

    def unreached(self) -> bool:
        """Whether it still tries to reach the server."""
        return LET_IN not in self._log.read_text(errors="replace")

    def wait_until_sent(self, seconds: float = 10.0) -> None:
        """Waits for the last answer to go out."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._program.ended is None:
            lines = [line for line in self._program.tail(60).splitlines() if "Received" in line or SENT in line]
            if lines and SENT in lines[-1]:
                return
            time.sleep(0.2)

    def stop(self) -> None:
        self._program.stop()


def take_part(
    host: Host,
    server: str,
    home: Path,
    *,
    certificates: str | None = None,
    key: str | None = None,
    limit: int = 2**31,
    tell: Callable[[str], None] = log.info,
) -> int:
    """Answers the server's letters until the federation has ended; returns after how many rounds."""
    mailbox, began, told = Mailbox(), time.monotonic(), False
    try:
        while host.ended is None:
            node = Node(server, mailbox, home, certificates, key)
            try:
                while host.ended is None:
                    if not mailbox.answer_one(host, tell, limit):
                        node.check()
                        if not told and time.monotonic() - began > 20 and node.unreached():
                            told = True
                            tell(f"{server} cannot be reached yet; trying on. Does it answer, and with TLS as you do?")
                node.wait_until_sent()
            except NotYetError as error:
                if time.monotonic() - began > STILL_THERE:
                    raise
                tell(f"{error} Perhaps it believes that an earlier start is still there; trying again.")
                time.sleep(5)
            finally:
                node.stop()
    finally:
        mailbox.close()
    return host.ended


def _told_request(letter: Letter) -> str:
    head, size = letter.head, readable_bytes(len(letter.body))
    kind = head.get("kind")
    if kind == "work":
        where = "joining" if head.get("stage") == "join" else f"round {head.get('round')}"
        received = f", received {size}" if letter.body else ""
        return f"{where}: the server asks for step {head.get('step')}{received}"
    known = {"invitation": "the server invites", "evaluate": "the server asks for an evaluation"}
    known |= {"public": f"received the public data, {size}", "farewell": "the federation has ended"}
    return known.get(str(kind), f"the server sent {kind!r}")


def _told_answer(letter: Letter) -> str:
    head = letter.head
    if head["kind"] == "exchange":
        return f"sent {readable_bytes(len(letter.body))} ({head['exchange']}) after {head['seconds']:.1f} s of work"
    if head["kind"] in ("end", "metrics") and head["metrics"].get("accuracy") is not None:
        return f"sent metrics: accuracy {100 * head['metrics']['accuracy']:.1f}%"
    return f"answered: {head['kind']}"
