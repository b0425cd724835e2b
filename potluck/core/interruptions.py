"""Ctrl-C and SIGTERM: the first one ends things in order, the second one ends them at once.

Python raises KeyboardInterrupt wherever the program happens to be, which may be in the middle of taking a lock that
nobody gives back then. Here a signal is noted, and raised where the program says that it can be: at a place that is
safe, or within work that may be cut off. A thread of its own hears signals also while the program computes in a library
that does not come back to Python.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 75.0
"""Seconds that an end in order may take; systemd and containers are less patient after 90."""
INTERRUPTED = 130
"""The exit code of whoever was interrupted."""


class Interruptions:
    """Hears Ctrl-C and SIGTERM while it is entered, in the main thread; and for good once one has come.

    Args:
        at_once: called before the process ends at once, to end what it has started; by default nothing is.
        patience: how many seconds an end in order may take before it ends at once; by default ``PATIENCE``.
    """

    def __init__(self, at_once: Callable[[], object] = lambda: None, patience: float = PATIENCE) -> None:
        self._at_once, self._patience = at_once, patience
        self._requested = threading.Event()
        self._may_raise = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruptions:
        self._read, self._write = socket.socketpair()
        self._write.setblocking(False)
        self._before = {number: signal.signal(number, self._heard) for number in SIGNALS}
        self._woken_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._forget)
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.requested:  # the process ends now, and nothing is to cut that off but a second signal
            return
        signal.set_wakeup_fd(self._woken_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        self._write.close()  # which ends the thread

    def _forget(self) -> None:
        """In a process that was forked off, as to load data: Ctrl-C in a terminal reaches it, too, and is not ours."""
        if self._before:
            signal.set_wakeup_fd(-1)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)

    @property
    def requested(self) -> bool:
        """Whether an end was asked for."""
        return self._requested.is_set()

    def check(self) -> None:
        """Raises KeyboardInterrupt if an end was asked for: the program is at a place where it may end."""
        if self.requested:
            raise KeyboardInterrupt

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Work that may be cut off anywhere, such as training, or a question to somebody at a terminal."""
        self.check()
        self._may_raise = True
        try:
            yield
        finally:
            self._may_raise = False

    def _heard(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, as soon as it comes back to Python."""
        self._requested.set()
        if self._may_raise:
            self._may_raise = False
            raise KeyboardInterrupt

    def _listen(self) -> None:
        """In a thread: whatever the main thread does, the second signal ends the process, or the end of patience."""
        with self._read, suppress(OSError):
            if not self._next_signal(None):
                return
            self._requested.set()
            if self._next_signal(self._patience):
                self._at_once()
                os._exit(INTERRUPTED)

    def _next_signal(self, timeout: float | None) -> bool:
        """Whether one of ours comes, or the time is over; False when nothing is listened for any more."""
        self._read.settimeout(timeout)
        while True:
            try:
                heard = self._read.recv(1)
            except TimeoutError:
                return True
            if not heard:
                return False
            if heard[0] in SIGNALS:
                return True
