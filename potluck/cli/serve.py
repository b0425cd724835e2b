"""``potluck serve``: the server of a federation whose participants are elsewhere."""

from __future__ import annotations

import os
import shlex
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.console import messages
from potluck.core.errors import PotluckError, SettingsError, how_to_install
from potluck.core.interruptions import INTERRUPTED, Interruptions


def serve(
    file: Annotated[Path, typer.Argument(metavar="SERVER.toml", help="The server's file.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/FILE-SEED")] = None,
    port: Annotated[int | None, typer.Option(help="The port for participants.", show_default="as in the file")] = None,
    monitor: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where /status, /health and /metrics answer.", show_default="nowhere"),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
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

    console = messages()
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
            link = SuperLink(file, settings, folder, resume, interruptions.check)
            watched = nullcontext() if monitor is None else Monitor(monitor, lambda: [folder / "flower" / STATUS_FILE])
            with watched, link:
                try:
                    failed = link.follow(lambda line: console.print(line, markup=False))
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


def need_flower() -> None:
    """Says what to install where Flower is missing."""
    if find_spec("flwr") is None:
        raise SettingsError(f"A real federation needs Flower: {how_to_install('flower')}")
