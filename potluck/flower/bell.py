"""How the run hears at once that an answer has come, instead of asking Flower's server again and again.

Flower's server and the process of a run are two programs on one machine. The run has a socket in a folder that only
this user can enter; the server sends it the number of each message whose answer is whole.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 256
"""How many bytes the number of a message has at most."""


class Bell:
    """The run's end.

    Args:
        folder: where its socket stands for as long as the bell is there.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{os.getpid()}"
        self._path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self._path))

    def wait(self, seconds: float) -> list[str]:
        """The numbers of the messages that have been answered; waits for one, but not longer than some seconds."""
        heard = []
        self._socket.settimeout(seconds)
        with suppress(TimeoutError, BlockingIOError):
            while True:
                heard.append(self._socket.recv(MAX_BYTES).decode())
                self._socket.setblocking(False)
        return heard

    def close(self) -> None:
        """Nothing is heard any more."""
        self._socket.close()
        self._path.unlink(missing_ok=True)


def ring(folder: Path, number: str) -> None:
    """Tells all runs that a message was answered. Whoever does not listen finds out when it looks next."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for path in folder.iterdir():
            try:
                sender.sendto(number.encode()[:MAX_BYTES], str(path))
            except ConnectionRefusedError:  # nobody has it open any more
                path.unlink(missing_ok=True)
            except OSError:  # as when it is full, or has just gone
                continue
