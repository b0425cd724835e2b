"""The option that says where data sets are, the same for all commands that read them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

VARIABLE = "POTLUCK_DATA"


def _look_there(folder: Path | None) -> Path | None:
    """Has data sets looked for in that folder, in this process and those that it starts."""
    if folder is not None:
        os.environ[VARIABLE] = str(folder)
    return folder


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="Where data sets are.",
        show_default=f"${VARIABLE}",
        envvar=VARIABLE,
        show_envvar=False,
        callback=_look_there,
    ),
]
