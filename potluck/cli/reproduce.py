"""``potluck reproduce``: a table or figure of a paper, played again beside what was published."""

from __future__ import annotations

import signal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from potluck.cli.console import progress, watch_rounds
from potluck.cli.data_dir import DataDir
from potluck.cli.logs import LogJson, LogLevel, log_console, logged

if TYPE_CHECKING:
    from potluck.recipes.paper_item import PaperScale


class ScaleName(StrEnum):
    """How large."""

    SMOKE = "smoke"
    SMALL = "small"
    PAPER = "paper"


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A table or figure; --list shows all.", show_default=False)
    ] = None,
    scale: Annotated[
        ScaleName, typer.Option(help="Seconds on made data, half an hour on two cores, or as in the paper.")
    ] = ScaleName.SMOKE,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from 0 on.")] = 1,
    out: Annotated[Path | None, typer.Option(help="The folder.", show_default="runs/NAME-SCALE")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 1,
    record: Annotated[
        Path | None, typer.Option(help="Also add a line for each run that is played to PAPER/ITEM.jsonl in a folder.")
    ] = None,
    data_dir: DataDir = None,
    show: Annotated[bool, typer.Option("--list", help="List what can be played.")] = False,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Play a table or figure of a paper, and set it beside what was published.

    Each run has a folder of its own: the same command goes on where it was
    stopped, and plays nothing twice.
    """
    if show or name is None:
        _list()
        return
    from potluck.engines import keep_freed_memory
    from potluck.reproduction.reproduce import reproduce as play

    keep_freed_memory()
    console = log_console(log_json)
    try:
        with logged(console, log_level, quiet="potluck.federation.federation"), progress(console) as bar:
            outcome = play(
                name, scale=scale.value, seeds=seeds, out=out, jobs=jobs, record=record, watch=watch_rounds(bar)
            )
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        console.print("Stopped. The same command goes on.")
        raise typer.Exit(130) from None
    from rich.console import Console

    item = outcome.item
    typer.echo(f"{item.paper}, {item.item}: {item.title}\n")
    Console(width=160).print(outcome.table().to_rich())
    for sentence in outcome.sentences():
        typer.echo(f"\n{sentence}")
    if outcome.failed:
        raise typer.Exit(1)


def _scale(named: tuple[str, PaperScale]) -> str:
    """A scale, and how long it takes: measured, or about."""
    name, scale = named
    about = "" if scale.minutes else "≈ "
    minutes = scale.minutes or scale.estimated
    if minutes is None:
        return name
    return f"{name} ({about}{minutes:g} min)" if minutes < 120 else f"{name} ({about}{minutes / 60:.0f} h)"


def _list() -> None:
    """Every table and figure with its verdict; of those that can be played, the scales and the data."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from potluck.reproduction.items import read_items
    from potluck.reproduction.rows import read_rows

    items, table = read_items(), Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, fixed in {
        "name": True,
        "what it shows": False,
        "verdict": True,
        "how it was played, or what it takes": False,
        "seeds": True,
        "plays at": False,
        "data": False,
    }.items():
        table.add_column(heading, no_wrap=fixed)
    for name, row in read_rows().items():
        item = items.get(name)
        plays = ", ".join(map(_scale, item.scales.items())) if item else "–"
        data = ", ".join(item.data) if item else ""
        table.add_row(name, row.shows, row.verdict, row.missing or row.scale, row.seeds, plays, data or "–")
    Console(width=160).print(table)
    typer.echo(
        "The verdicts are on the results in the repository's evidence/. Times with ≈ are estimates: for all rows under"
    )
    typer.echo(
        "one seed, on two cores, and at the scale paper on one GPU. To play one: potluck reproduce NAME --scale SCALE"
    )
