"""``potluck new``: a commented run file, and a Python file for one's own model and data."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from potluck.errors import SettingsError

FILES = ("federation.toml", "mine.py")


def new(folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path()) -> None:
    """Write a starter file for a federation, and one for your own model and data."""
    taken = [name for name in FILES if (folder / name).exists()]
    if taken:
        raise SettingsError(f"{folder / taken[0]} is there already and stays as it is; choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        template = files("potluck.cli") / "templates" / f"{name}.txt"
        (folder / name).write_text(template.read_text())
        typer.echo(f"wrote {folder / name}")
    typer.echo(f"Try it: cd {folder} && potluck check federation.toml && potluck run federation.toml")
