"""The server's side of Flower: a SuperLink with a run of potluck's app in it."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from filelock import BaseFileLock

import potluck
from potluck.core.errors import PotluckError
from potluck.core.processes import held_alone
from potluck.flower.certificates import read_certificate, warn_of_end
from potluck.flower.config import FederationFile
from potluck.flower.processes import APP, HERE, Program, check_listenable, environment, flwr, free_port, wait_for_port
from potluck.flower.progress import ProgressLog
from potluck.flower.protocol import PROTOCOL
from potluck.flower.reception import DoorList, known_site
from potluck.flower.site_state import INVITATION

log = logging.getLogger(__name__)

MAX_REQUEST_BYTES = 64 * 2**20
"""How many bytes one request of a node may have: an array travels in pieces of 5 MiB."""
STOP_TIMEOUT = 30.0
"""Seconds that the run has to stop by itself."""
DAY = 86400.0
"""Seconds between two warnings that a certificate ends."""
STATUS_INTERVAL = 30.0
"""Seconds between two looks at whether Flower still runs it: it notices within a minute that the ServerApp is gone."""


class SuperLink:
    """Starts a SuperLink and the run, follows it, and stops both.

    Args:
        path: where the server's file is.
        file: what it holds.
        out: the run folder.
        resume: whether to go on with the run in it.
        check: called where starting and following may end, to raise if they are to; by default they are not.
    """

    def __init__(
        self,
        path: Path,
        file: FederationFile,
        out: Path,
        resume: bool,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._file, self._path, self._out, self._resume = file, path.resolve(), out.resolve(), resume
        self._home = self._out / "flower"
        self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._home.chmod(0o700)
        self._progress_path = self._home / "progress.log"
        self._progress = ProgressLog(self._progress_path)
        self._ready = self._home / "ready"
        self._bells = Path(tempfile.mkdtemp(prefix="potluck-"))  # mode 0700, and short: a socket's path is
        self._port = free_port()
        self._environment = environment(
            self._home,
            POTLUCK_PUBLIC_HOST=file.host,
            POTLUCK_PUBLIC_PORT=str(file.port),
            POTLUCK_MAX_REQUEST_BYTES=str(MAX_REQUEST_BYTES),
            POTLUCK_MAX_ANSWER_BYTES=str(file.max_payload_bytes),
            POTLUCK_READY=str(self._ready),
            POTLUCK_BELLS=str(self._bells),
            POTLUCK_DOOR=str(self._home / "door.json"),
            POTLUCK_PROGRESS=str(self._progress_path),
        )
        self._lock: BaseFileLock | None = None
        self._program: Program | None = None
        self._run = ""
        self._status_at = 0.0
        self._warned_at = float("-inf")

    def __enter__(self) -> SuperLink:
        # Before anything is touched that another server may be using.
        busy = f"{self._out} is being served already. Stop that server, or choose another folder."
        self._lock = held_alone(self._home / ".lock", busy)
        try:
            return self._start()
        except BaseException:
            self._lock.release()
            raise

    def _start(self) -> SuperLink:
        check_listenable(self._file.host, self._file.port, f"{self._path.name}, port")
        self._progress.clear()
        self._forget_other_versions()
        (self._home / INVITATION).unlink(missing_ok=True)
        sites = tuple(known_site(entry.name, entry.key) for entry in self._file.participants)
        DoorList(PROTOCOL, potluck.__version__, sites, str(self._home / INVITATION)).write(self._home / "door.json")
        self._ready.unlink(missing_ok=True)
        self._program = Program(self._command(), self._environment, self._home / "superlink.log")
        try:
            wait_for_port(self._port, self._program, check=self._check)
            self._start_run()
        except BaseException:
            self._program.stop()
            raise
        return self

    def _forget_other_versions(self) -> None:
        """Flower's own store is of the version that made it, and holds nothing that is needed."""
        made_by, now = self._home / "flwr-version", version("flwr")
        if not made_by.exists() or made_by.read_text() != now:
            for path in self._home.glob("state.db*"):
                path.unlink()
            made_by.write_text(now)

    def __exit__(self, *_: object) -> None:
        assert self._program is not None
        assert self._lock is not None
        self._program.stop()
        shutil.rmtree(self._bells, ignore_errors=True)
        self._lock.release()

    def follow(self, report: Callable[[str], None]) -> str:
        """Reports what happens until the run has ended; returns why it failed, if it did."""
        while True:
            outcome = self._progress.outcome()
            for line in self._progress.new_lines():
                report(line)
            if outcome is not None:
                return outcome
            self._check()
            for line in self._warnings():
                report(line)
            if self._program is not None and self._program.ended is not None:
                return f"Flower's server ended ({self._program.ended}); the end of its log:\n{self._program.tail()}"
            if self._is_over():
                outcome = self._progress.outcome()  # which is written before the run is over
                return self._how_to_go_on() if outcome is None else outcome
            time.sleep(0.2)

    def _warnings(self) -> list[str]:
        """Which certificates end soon, told once a day."""
        tls = self._file.tls
        if tls is None or time.monotonic() - self._warned_at < DAY:
            return []
        self._warned_at = time.monotonic()
        both = {"The server's certificate": tls.certificate, "The authority's certificate": tls.authority}
        found = [warn_of_end(f"{what}, {path},", read_certificate(Path(path))) for what, path in both.items()]
        return [line for line in found if line is not None]

    def _is_over(self) -> bool:
        """Whether Flower says that the run has ended, asked now and then: its process may end alone."""
        if time.monotonic() - self._status_at < STATUS_INTERVAL:
            return False
        self._status_at = time.monotonic()
        try:
            (run,) = flwr(self._environment, "list", "potluck", "--run-id", self._run)["runs"]
        except (PotluckError, subprocess.TimeoutExpired) as error:
            log.warning("Flower does not say how the run is: %s", error)
            return False
        return str(run["status"]).startswith("finished")

    def _how_to_go_on(self) -> str:
        return (
            f"The ServerApp, which runs the rounds, ended without a word; see {self._home / 'superlink.log'}. "
            f"Participants wait; go on with --resume."
        )

    def stop_at_once(self) -> None:
        """Ends everything without waiting for anything."""
        if self._program is not None:
            self._program.stop_at_once()

    def ask_to_stop(self) -> None:
        """Has the run stop after what it is doing, and waits for it a little."""
        self._progress.ask_to_stop()
        until = time.monotonic() + STOP_TIMEOUT
        while self._progress.outcome() is None and time.monotonic() < until:
            if self._program is None or self._program.ended is not None:
                return
            time.sleep(0.1)

    def _command(self) -> list[str]:
        file = self._file
        command = [sys.executable, "-P", str(HERE / "port_filter.py"), "--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--database", str(self._home / "state.db"), "--disable-runtime-dependency-installation"]
        if file.tls is None:
            return [*command, "--insecure"]
        tls = ["--ssl-ca-certfile", file.tls.authority, "--ssl-certfile", file.tls.certificate]
        return [*command, *tls, "--ssl-keyfile", file.tls.key, "--enable-supernode-auth"]

    def _start_run(self) -> None:
        """Registers the participants' keys, and starts the run."""
        tls = self._file.tls
        security = "insecure = true" if tls is None else f"root-certificates = {json.dumps(tls.authority)}"
        (self._home / "config.toml").write_text(
            f'[superlink]\ndefault = "potluck"\n[superlink.potluck]\naddress = "127.0.0.1:{self._port}"\n{security}\n'
        )
        for entry in self._file.participants:
            if entry.key is not None:
                self._check()
                self._register(entry.key)
        self._ready.touch()
        settings = {"federation": self._path, "out": self._out, "progress": self._progress_path, "bells": self._bells}
        config = [f"{name}={json.dumps(str(value))}" for name, value in settings.items()]
        config += [f"resume={str(self._resume).lower()}", f"server={os.getpid()}"]
        started = flwr(self._environment, "run", str(APP), "potluck", "--run-config", " ".join(config))
        self._run, self._status_at = str(started["run-id"]), time.monotonic()

    def _register(self, key: str) -> None:
        try:
            flwr(self._environment, "supernode", "register", key, "potluck")
        except PotluckError as error:
            if "already" not in str(error).lower():  # in a run that goes on
                raise
