"""``potluck watch``: how a run or a comparison stands, in the terminal or in a browser."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.console import HarmlessConsole
from potluck.core.errors import SettingsError, how_to_install


def watch(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="What `potluck run`, `compare` or `serve` writes.", show_default=False),
    ],
    once: Annotated[bool, typer.Option("--once", help="Say how it stands now, and no more.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    web: Annotated[bool, typer.Option("--web", help="Show it in a browser.")] = False,
    host: Annotated[
        str, typer.Option(help="Where the browser's page is: other addresses than this one need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Its port.", show_default="any that is free")] = 0,
    token: Annotated[
        str | None,
        typer.Option(help="What the page's address must hold.", show_default="drawn where others reach the page"),
    ] = None,
) -> None:
    """Watch a run, a comparison, or a served federation; it may be another process's, or over.

    Only the folder is read, and nothing is written. Where standard output is no
    terminal, it is said once how things stand.
    """
    from potluck.watch.folders import watcher_of

    watcher = watcher_of(folder)
    if web:
        if missing := [name for name in ("starlette", "uvicorn") if find_spec(name) is None]:
            raise SettingsError(f"A page needs {' and '.join(missing)}: {how_to_install('web')}")
        from potluck.watch.web import serve

        serve(watcher.look, lambda address: typer.echo(f"At {address} until Ctrl-C."), host, port, token, every)
        return
    from potluck.watch.terminal import follow, rendered

    console = HarmlessConsole(highlight=False)
    if once or not sys.stdout.isatty():
        console.print(rendered(watcher.look()))
        return
    try:
        follow(watcher.look, console, every)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
