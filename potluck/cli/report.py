"""``potluck report``: a page of a comparison, or of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="What `potluck compare` or `potluck run` wrote.", show_default=False),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the page goes.", show_default="DIR/report.html")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder for each figure as SVG, PNG, PDF and CSV, and tables for LaTeX and Markdown."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="What to compare by: a column of the history.", show_default="the headline"),
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="A value of the metric: how long until it is reached?", show_default=False)
    ] = None,
) -> None:
    """Write a page about a comparison, or about runs: what is best, by how much, at what cost.

    The page needs no network and no other file. One folder of a comparison, or
    one or more run folders, are read; nothing is played.
    """
    from potluck.report.folders import read_standings
    from potluck.report.page import PAGE, write_report

    standings = read_standings(folders, metric, target)
    page = out or (folders[0] / PAGE if len(folders) == 1 else Path(PAGE))
    written = write_report(standings, page, figures)
    typer.echo(f"Written: {written[0]}")
    if figures is not None:
        typer.echo(f"{len(written) - 1} files of figures and tables in {figures}")
