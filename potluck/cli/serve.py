"""``potluck serve``: the server of a federation whose participants are elsewhere."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from potluck.cli.console import messages
from potluck.core.errors import PotluckError, SettingsError, how_to_install


def serve(
    file: Annotated[Path, typer.Argument(metavar="FEDERATION.toml", help="The server's file.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/FILE-SEED")] = None,
    port: Annotated[int | None, typer.Option(help="The port for participants.", show_default="as in the file")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
) -> None:
    """Be the server of a federation: wait for its participants, run it, keep everything in a folder.

    FEDERATION.toml names the method, the participants and their keys. Everyone
    joins with `potluck join` from a machine of its own. A run that was stopped
    goes on with --resume.
    """
    need_flower()
    from potluck.flower.config import read_federation
    from potluck.flower.superlink import SuperLink

    console = messages()
    os.umask(0o077)  # what participants send is nobody else's on this machine
    settings = read_federation(file, port=port)
    folder = out or Path("runs") / f"{file.stem}-{settings.seed}"
    if (folder / "settings.json").exists() and not resume:
        raise SettingsError(f"{folder} already holds a run. Go on with --resume, or choose another folder with --out.")
    if settings.tls is None:
        console.print("Without TLS nothing is encrypted and nobody proves who they are: for a trial on one machine.")
    console.print(f"Serving at {settings.host}:{settings.port}. Ctrl-C stops; --resume goes on.")
    try:
        with terminable(), SuperLink(file, settings, folder, resume) as link:
            try:
                failed = link.follow(lambda line: console.print(line, markup=False))
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed twice, it must not cut off what follows
                console.print("Stopping.")
                link.ask_to_stop()
                raise
    except KeyboardInterrupt:
        again = ["potluck", "serve", str(file), *(["--out", str(out)] if out else []), "--resume"]
        console.print(f"Stopped. Participants wait; go on with:\n{shlex.join(again)}")
        raise typer.Exit(130) from None
    if failed:
        raise PotluckError(failed)
    typer.echo((folder / "table.txt").read_text())
    typer.echo(f"Kept in {folder}")


def need_flower() -> None:
    """Says what to install where Flower is missing."""
    if find_spec("flwr") is None:
        raise SettingsError(f"A real federation needs Flower: {how_to_install('flower')}")


@contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM stops as cleanly as Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
