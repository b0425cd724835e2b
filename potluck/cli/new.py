"""``potluck new``: a commented run file, and a Python file for one's own model and data."""

from __future__ import annotations

import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from potluck.core.errors import SettingsError

FILES = ("federation.toml", "mine.py")


def new(folder: Annotated[Path, typer.Argument(help="Where the files go.")] = Path()) -> None:
    """Write a commented run file, and a Python file for your own model and data.

    federation.toml and mine.py go to FOLDER, by default the working directory.
    Nothing is overwritten.
    """
    taken = [folder / name for name in FILES if (folder / name).exists()]
    if taken:
        raise SettingsError(f"{taken[0]} is there already and stays as it is; choose another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            template = files("potluck.cli") / "templates" / f"{name}.txt"
            (folder / name).write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"Nothing can be written to {folder}: {error.strerror}.") from error
    typer.echo(f"Wrote {' and '.join(str(folder / name) for name in FILES)}. Try:")
    file = shlex.quote(str(folder / FILES[0]))
    typer.echo(f"  potluck check {file}\n  potluck run {file}")
