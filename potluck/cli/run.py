"""``potluck run`` and ``potluck check``: a federation from a file."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from potluck.errors import MisfitError, SettingsError
from potluck.federation import Federation
from potluck.history import History, Row, readable_bytes
from potluck.method import Method
from potluck.methods import METHODS
from potluck.recipes import Recipe, read

File = Annotated[Path, typer.Argument(help="A run file; `potluck new` writes one.")]
Change = Annotated[
    list[str] | None, typer.Option("--set", help="Change a setting: key=value, e.g. method.alpha=0.5. Repeatable.")
]


def run(
    file: File,
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/NAME-SEED.")] = None,
    engine: Annotated[str | None, typer.Option(help="serial, batched or auto.")] = None,
    device: Annotated[str | None, typer.Option(help="A torch device, or auto.")] = None,
    seed: Annotated[int | None, typer.Option(help="What every random draw derives from.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds in all.")] = None,
    change: Change = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
) -> None:
    """Run the federation in FILE and keep everything about it in a folder."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    options = {"engine": engine, "device": device, "seed": seed, "rounds": rounds}
    given = [f"{name}={_toml(value)}" for name, value in options.items() if value is not None]
    recipe = read(file, [*(change or []), *given])
    folder = out or Path("runs") / f"{file.stem}-{recipe.seed}"
    console = Console()
    with waiting(console, "dealing the data, building the models"):
        federation = recipe.federation()
    try:
        history = _play(federation, recipe, folder, resume, console)
    except KeyboardInterrupt:
        played = federation.history.rounds
        console.print(f"Stopped after round {played} of {recipe.rounds}. Go on with --resume --out {folder}")
        raise typer.Exit(130) from None
    console.print(history.table(), highlight=False)
    console.print(f"Kept in {folder}")


def check(file: File, change: Change = None) -> None:
    """Say which methods fit the federation in FILE and why the others do not, and how much would travel."""
    recipe = read(file, change or [])
    console = Console()
    with waiting(console, "dealing the data, building the models"):
        table = recipe.table()
    own = recipe.build_method()
    methods: dict[str, Method] = {recipe.method.name: own}
    for name in METHODS:
        if METHODS[name] is not type(own):
            try:
                methods[name] = METHODS[name]()
            except SettingsError:
                continue  # a method that cannot be made without settings is for its own run file
    shown = Table("method", "fits", "per participant and round: up", "down", "at joining: up", "down", title=str(file))
    with waiting(console, "rehearsing without training"):
        for name, method in methods.items():
            try:
                federation = table.federation(method, "rehearsal")
            except MisfitError as error:
                reasons = [line.removeprefix("- ") for line in str(error).splitlines()[1:]]
                shown.add_row(name, "no: " + "; ".join(reasons).replace("[", r"\["))
            else:
                shown.add_row(name, "yes", *_traffic(federation))
    console.print(shown)
    console.print("Counted in a rehearsal of two rounds with untrained models; what is sent is never estimated.")


def _traffic(federation: Federation) -> tuple[str, str, str, str]:
    """Mean bytes per participant: in a later round, and what the first round takes on top."""
    rows = federation.run(2).rows()

    def mean(key: str, number: int) -> float:
        found = [row[key] for row in rows if row["round"] == number]
        return float(sum(found) / len(found))

    later = [mean(key, 2) for key in ("bytes_up", "bytes_down")]
    joining = [max(0.0, mean(key, 1) - usual) for key, usual in zip(("bytes_up", "bytes_down"), later, strict=True)]
    up, down, first_up, first_down = (readable_bytes(count) for count in (*later, *joining))
    return up, down, first_up, first_down


def _play(federation: Federation, recipe: Recipe, folder: Path, resume: bool, console: Console) -> History:
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("rounds", total=recipe.rounds)

        def advance(played: Federation, rows: list[Row]) -> None:
            accuracy = played.history.at(rows[0]["round"]).accuracy
            told = "" if accuracy is None else f", accuracy {100 * accuracy:.1f}%"
            bar.update(task, completed=played.history.rounds, description=f"rounds{told}")

        return federation.run(
            recipe.rounds,
            run_dir=folder,
            resume=resume,
            checkpoint_every=recipe.checkpoint_every,
            callbacks=[advance],
        )


def waiting(console: Console, doing: str) -> AbstractContextManager[object]:
    """Says what is being waited for, on a terminal."""
    return console.status(doing) if console.is_terminal else nullcontext()


def _toml(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)
