"""``potluck download``: published data sets, with their licences, onto this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from potluck.cli.console import messages
from potluck.cli.data_dir import DataDir

if TYPE_CHECKING:
    from potluck.data.sets.catalog import PublishedSet


class OriginName(StrEnum):
    """From where."""

    ORIGINAL = "original"
    HUB = "hub"


def download(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Data sets; none lists them.", show_default=False)
    ] = None,
    origin: Annotated[
        OriginName | None,
        typer.Option(
            "--from", help="The original address, or the Hugging Face hub.", show_default="original, where there is one"
        ),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Download published data sets by name, or list them with their licences.

    A run file names one as its source, such as source = "mnist". Nothing is
    downloaded but here, or where a source says download = true. What was cut
    off goes on where it stopped; what comes is held against its checksum.
    """
    from potluck.data.sets.published import get_set, set_named

    if not names:
        _list()
        return
    console, wanted = messages(), [set_named(name) for name in names]
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    for published in wanted:
        _tell(published)
        with bar:
            task = bar.add_task(published.name, total=None)

            def watch(file: str, there: int, whole: int | None, task: int = task) -> None:
                bar.update(task, description=file, completed=there, total=whole)  # type: ignore[arg-type]

            chosen = origin or (OriginName.ORIGINAL if published.files else OriginName.HUB)
            place = get_set(published, data_dir, chosen.value, watch)
            bar.remove_task(task)
        typer.echo(f"{published.name} is in {place}\n")


def _tell(published: PublishedSet) -> None:
    typer.echo(published.title)
    typer.echo(f"  licence: {published.licence}")
    typer.echo(f"  described: {published.home}")
    typer.echo(f"  cite: {published.cite}")
    if unknown := [file.name for file in published.files if not file.sha256]:
        typer.echo(
            f"  no checksum is published of {', '.join(unknown)}: that of the first download is kept, and must stay"
        )


def _list() -> None:
    """The data sets: whether each is here, what it is, its licence and size, and from where it can be had."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from potluck.data.sets.catalog import CATALOG
    from potluck.data.sets.folders import data_dir
    from potluck.data.sets.published import is_here

    table = Table(box=SIMPLE_HEAD)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("here")
    table.add_column("what it is, its licence, its size, and from where")
    for name, published in CATALOG.items():
        about = Text(published.title)
        size = [] if published.size is None else [f"{published.size / 1e6:,.1f} MB"]
        origins = [*["original"] * bool(published.files), *["hub"] * (published.hub is not None)]
        about.append(f"\n{'; '.join([published.licence, *size, ' or '.join(origins)])}", style="dim")
        table.add_row(name, "yes" if is_here(published) else "no", about)
    Console(highlight=False).print(table)
    typer.echo(f"Looked for in {data_dir()}; --data-dir or POTLUCK_DATA says otherwise.")
