"""``potluck run``: a federation from a file, stored in a run folder."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from potluck.cli.console import progress, waiting
from potluck.cli.data_dir import DataDir
from potluck.cli.logs import LogJson, LogLevel, log_console, logged
from potluck.core.errors import RequirementsError, SettingsError
from potluck.core.metrics import readable, title

if TYPE_CHECKING:
    from potluck.core.history import Row
    from potluck.core.metrics import Metrics
    from potluck.federation.federation import Federation
    from potluck.recipes import Recipe

File = Annotated[Path, typer.Argument(help="A run file; `potluck new` writes one.", show_default=False)]
Change = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting of FILE, e.g. method.alpha=0.5 or participants.0.plan.lr=0.1. Repeatable.",
    ),
]


def run(
    file: File,
    out: Annotated[Path | None, typer.Option(help="The run folder.", show_default="runs/FILE-SEED")] = None,
    engine: Annotated[
        str | None, typer.Option(help="auto, autotune, batched, ray or serial; the results agree.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="A Ray cluster, for the engine ray; auto for this machine's.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="For the engine ray: how many worker processes.")] = None,
    device: Annotated[str | None, typer.Option(help="A torch device such as cpu or cuda, or auto.")] = None,
    seed: Annotated[int | None, typer.Option(help="What every random draw derives from.")] = None,
    rounds: Annotated[int | None, typer.Option(min=0, help="How many rounds in all.")] = None,
    change: Change = None,
    data_dir: DataDir = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Say where the time went.")] = False,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Run the federation in FILE and store everything about it in a folder.

    FILE is a run file; `potluck new` writes one to start from. Options replace
    what it says. A run that was stopped goes on with the same options and
    --resume.
    """
    from potluck.core.model_spec import OWN
    from potluck.engines import keep_freed_memory
    from potluck.recipes import read

    keep_freed_memory()
    console, federation = log_console(log_json), None
    workings = {"address": address, "workers": workers}
    changes = [*(change or []), *(f"ray.{key}={value}" for key, value in workings.items() if value is not None)]
    options = {"engine": engine, "device": device, "seed": seed, "rounds": rounds}
    options = {name: value for name, value in options.items() if value is not None}
    try:
        with logged(console, log_level):
            recipe = read(file, changes, options)
            folder = out or Path("runs") / f"{file.stem}-{recipe.seed}"
            _check_folder(folder, resume, console)
            with waiting("dividing the data, building the models", console):
                federation = _built(recipe, file)
            federation.made_from["command"] = _command(file, None, options, changes, data_dir)
            profiler = federation.profile() if profile else None
            before = _play(federation, recipe, folder, resume, console)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # pressed twice, it must not cut off what follows
        played = federation.history.rounds if federation else 0
        again = _command(file, out, options, changes, data_dir) + " --resume" + (" --profile" if profile else "")
        console.print(f"Stopped after round {played}. Go on with:\n{again}")
        raise typer.Exit(130) from None
    typer.echo(federation.history.table())
    for name, scores in federation.unseen_scores.items():
        for model, metrics in scores.items():
            whose = "" if model == OWN else f", with the model {model!r}"
            typer.echo(f"{name}, who took no part{whose}: {_as_newcomer(metrics)}")
    if federation.stopped is not None:
        typer.echo(f"Ended after round {federation.history.rounds}: {federation.stopped}.")
    elif before >= recipe.rounds > 0:
        there = "1 round is" if before == 1 else f"{before} rounds are"
        typer.echo(f"Nothing was left to play: {there} there, and {recipe.rounds} in all were asked for.")
    if profiler is not None:
        typer.echo(profiler.table())
        for kind, strategies in federation.engine.decisions().get("strategies", {}).items():
            typer.echo(f"{kind}: trained {'; '.join(strategies)}")
    typer.echo(f"Kept in {folder}")


def _as_newcomer(metrics: Metrics) -> str:
    """What a newcomer scored, in words."""
    texts = [f"{name} {value:.3f}" for name, value in metrics.items() if value is not None]
    return ", ".join(texts) or "nothing to tell"


def _check_folder(folder: Path, resume: bool, console: Console) -> None:
    kept = (folder / "settings.json").exists()
    if kept and not resume:
        raise SettingsError(f"{folder} already holds a run. Go on with --resume, or choose another folder with --out.")
    if resume and not kept:
        console.print(f"There is no run in {folder} yet: starting from the beginning.")


def _built(recipe: Recipe, file: Path) -> Federation:
    try:
        return recipe.federation()
    except RequirementsError as error:
        raise RequirementsError(f"{error}\n`potluck check {file}` says which methods fit.") from error


def _play(federation: Federation, recipe: Recipe, folder: Path, resume: bool, console: Console) -> int:
    """Plays what is left to play, and returns how many rounds were there before."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(f"The run cannot be stored in {folder}: {error.strerror}.") from error
    now = 0
    with progress(console) as bar:
        task = bar.add_task("rounds", total=recipe.rounds)

        def advance(played: Federation, rows: list[Row]) -> None:
            nonlocal now
            now += 1
            final = played.history.final
            score = "" if final.score is None else f", {title(final.metric)} {readable(final.metric, final.score)}"
            bar.update(task, completed=played.history.rounds, description=f"rounds{score}")

        history = federation.run(
            recipe.rounds,
            run_dir=folder,
            resume=resume,
            checkpoint_every=recipe.checkpoint_every,
            callbacks=[*recipe.callbacks(), advance],
        )
    return history.rounds - now


def _command(
    file: Path, out: Path | None, options: Mapping[str, Any], changes: Sequence[str], data_dir: Path | None
) -> str:
    """The command that plays this run."""
    given = {**({"out": out} if out else {}), **options, **({"data-dir": data_dir} if data_dir else {})}
    pairs = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    sets = [part for change in changes for part in ("--set", change)]
    return shlex.join(["potluck", "run", str(file), *pairs, *sets])
