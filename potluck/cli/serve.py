"""``potluck serve``: the server of a federation whose participants are elsewhere."""

from __future__ import annotations

import logging
import os
import re
import shlex
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.console import LiveLine
from potluck.cli.logs import Level, LogJson, LogLevel, log_console, logged
from potluck.core.duration import readable_duration
from potluck.core.errors import PotluckError, SettingsError, how_to_install
from potluck.core.interruptions import INTERRUPTED, Interruptions

log = logging.getLogger(__name__)


def serve(
    file: Annotated[Path, typer.Argument(metavar="SERVER.toml", help="The server's file.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/FILE-SEED")] = None,
    port: Annotated[int | None, typer.Option(help="The port for participants.", show_default="as in the file")] = None,
    monitor: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where /status, /health and /metrics answer.", show_default="nowhere"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Be the server of a federation: wait for its participants, run it, keep everything in a folder.

    SERVER.toml names the method, the participants and their keys. Everyone
    joins with `potluck join` from a machine of its own. A run that was stopped
    goes on with --resume.
    """
    need_flower()
    from potluck.flower.config import read_federation
    from potluck.flower.monitor import Monitor
    from potluck.flower.status import STATUS_FILE, read_status
    from potluck.flower.superlink import SuperLink

    console = log_console(log_json)
    os.umask(0o077)  # what participants send is nobody else's on this machine
    settings = read_federation(file, port=port)
    folder = out or Path("runs") / f"{file.stem}-{settings.seed}"
    if (folder / "settings.json").exists() and not resume:
        raise SettingsError(f"{folder} already holds a run. Go on with --resume, or choose another folder with --out.")
    if settings.tls is None:
        console.print("Without TLS nothing is encrypted and nobody proves who they are: for a trial on one machine.")
    again = shlex.join(["potluck", "serve", str(file), *(["--out", str(out)] if out else []), "--resume"])
    link: SuperLink | None = None
    try:
        with Interruptions(at_once=lambda: None if link is None else link.stop_at_once()) as interruptions:
            console.print(f"Serving at {settings.host}:{settings.port}. Ctrl-C stops; --resume goes on.")
            line = LiveLine(console)
            link = SuperLink(file, settings, folder, resume, Watching(line, folder / "flower", interruptions.check))
            watched = nullcontext() if monitor is None else Monitor(monitor, lambda: [folder / "flower" / STATUS_FILE])
            with logged(console, log_level, at_terminal=Level.INFO, times=True), watched, link, line:
                try:
                    failed = link.follow(_log_line)
                except KeyboardInterrupt:
                    console.print("Stopping. Ctrl-C again stops at once.")
                    link.ask_to_stop()
                    raise
    except KeyboardInterrupt:
        console.print(f"Stopped. Participants wait; go on with:\n{again}")
        raise typer.Exit(INTERRUPTED) from None
    if failed:
        raise PotluckError(failed)
    if (folder / "table.txt").exists():
        typer.echo((folder / "table.txt").read_text())
    typer.echo(f"Kept in {folder}")
    if read_status(folder / "flower" / STATUS_FILE).state == "stopped":
        typer.echo(f"It was stopped before its end; go on with:\n{again}")


def _log_line(line: str) -> None:
    """Logs a line of the server's, which begins with its time: the log has times of its own."""
    log.info("%s", re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", "", line))


class Watching:
    """Has the live line say how the federation stands, once a second, and checks whether to stop.

    Args:
        line: the live line.
        folder: where the server says how it stands.
        check: raises if the command is to stop.
    """

    def __init__(self, line: LiveLine, folder: Path, check: Callable[[], None]) -> None:
        self._line, self._folder, self._check = line, folder, check
        self._read_at = float("-inf")

    def __call__(self) -> None:
        self._check()
        if time.monotonic() - self._read_at > 1:
            self._read_at = time.monotonic()
            self._line.say(self._now())

    def _now(self) -> str:
        from potluck.flower.status import STATUS_FILE, read_status

        try:
            status = read_status(self._folder / STATUS_FILE)
        except SettingsError:
            return "starting"  # it says nothing yet
        working = [each.name for each in status.participants if each.state == "working"]
        parts = [f"{status.state}: {status.round} of {status.rounds} rounds are over"]
        parts += [f"{len(working)} at work"] if working else []
        parts += [f"about {readable_duration(status.seconds_left)} left"] if status.seconds_left else []
        return "; ".join(parts)


def need_flower() -> None:
    """Says what to install where Flower is missing."""
    if find_spec("flwr") is None:
        raise SettingsError(f"A real federation needs Flower: {how_to_install('flower')}")
