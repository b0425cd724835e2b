"""``potluck describe``: what participants' tables have in common, and a preprocessor made of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from potluck.cli.console import messages, waiting
from potluck.cli.logs import logged
from potluck.cli.run import Change


class Scaling(StrEnum):
    """The ways of scaling numbers."""

    standard = "standard"
    range = "range"
    none = "none"


def describe(
    source: Annotated[Path, typer.Argument(metavar="FILE|RUN", help="A run file, or a study's run folder.")],
    out: Annotated[
        Path | None, typer.Option(help="Where the common preprocessor goes, as JSON.", show_default=False)
    ] = None,
    scale: Annotated[Scaling, typer.Option(help="How it scales numbers.")] = Scaling.standard,
    indicate_missing: Annotated[
        bool, typer.Option("--indicate-missing", help="Have a column say where a number is missing.")
    ] = False,
    categories: Annotated[
        list[str] | None, typer.Option("--category", help="A column of numbers that are codes. Repeatable.")
    ] = None,
    change: Change = None,
) -> None:
    """Show what the columns of all participants' tables have in common.

    FILE is a run file, whose participants tell what their `disclosure` allows;
    nothing is trained. RUN is the run folder of such a study, as of one over a
    network (method "Describe"). With --out, what makes all tables alike is written:
    `preprocess = "common.json"` has a participant use it.
    """
    from potluck.preparation.description import Description
    from potluck.preparation.study import describe as study

    console = messages()
    if source.is_dir() or source.suffix == ".json":
        found = Description.load(source)
    else:
        from potluck.recipes import read

        recipe = read(source, change or [])
        with logged(console), waiting("describing the tables", console):
            found = study(recipe.builder().participants(), categories=tuple(categories or ()))
    made = found.preprocessor(scale.value, indicate_missing=indicate_missing) if out is not None else None
    typer.echo(found.text())
    if out is not None and made is not None:
        made.save(out)
        typer.echo(f"{len(made.get_feature_names_out())} columns of numbers are made by {out}.")
