"""Flower's programs: started with settings for quiet and offline use, and stopped with all that they started."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from potluck.core.errors import PotluckError, SettingsError
from potluck.core.processes import ending_with_parent

HERE = Path(__file__).parent
APP = HERE / "app"
GRACE = 15.0
"""Seconds that a program has to end by itself."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """No telemetry, no look for updates, nothing installed at run time, and a folder of its own."""
    programs = str(Path(sys.executable).parent)
    path = os.environ.get("PATH", "")
    return {
        **os.environ,
        "PATH": path if programs in path.split(os.pathsep) else f"{programs}{os.pathsep}{path}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_listenable(host: str, port: int, told: str) -> None:
    """Raises SettingsError where nobody can listen at an address: a program that tried would end without a word.

    Args:
        host: the address of this machine.
        port: its port.
        told: where the port was asked for.
    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = "another program uses it. Stop that one, or choose another with --port."
            else:
                why = f"{error.strerror}. Expected an address of this machine, and a port that you may use."
            raise SettingsError(f"{told}: nobody can listen at {host}:{port}: {why}") from error


class Program:
    """A program of Flower's in a session of its own, so that Ctrl-C reaches us alone and we stop it in order.

    Args:
        command: the program and its arguments.
        environment: its environment variables.
        log: a file that what it prints is added to.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=ending_with_parent(signal.SIGTERM),  # elsewhere they look after each other
            )

    @property
    def ended(self) -> int | None:
        """How it ended, if it has."""
        return self._process.poll()

    def stop(self) -> None:
        """Asks it to end, and ends it and all that it started if it does not."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop_at_once(self) -> None:
        """Asks it and all that it started to end, and does not wait. Takes no lock: it may be called at any time."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def end_with(process: int) -> None:
    """Has this process end at once when another one has: whoever is killed leaves nobody behind who goes on writing."""

    def watch() -> None:
        while _runs(process):
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_port(port: int, program: Program, seconds: float = 60.0, check: Callable[[], None] = lambda: None) -> None:
    """Until a program listens. ``check`` is called all the time, and may raise."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check()
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if program.ended is not None:
            break
        time.sleep(0.1)
    raise PotluckError(f"Flower's server did not start; the end of {program.log}:\n{program.tail()}")


def flwr(environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    """Runs Flower's command and returns what it prints, as JSON."""
    command = [str(Path(sys.executable).with_name("flwr")), *arguments, "--format", "json"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )
    start = done.stdout.find("{")
    try:
        printed: dict[str, Any] = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        printed = {}
    if done.returncode != 0 or not printed.get("success", False):
        reason = printed.get("error-message") or (done.stdout + done.stderr).strip()
        raise PotluckError(f"`flwr {' '.join(arguments[:2])}` failed: {reason}")
    return printed
