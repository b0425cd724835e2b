"""``potluck compare``: several methods on the same federations, and which is better."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from potluck.cli.console import progress, watch_rounds
from potluck.cli.data_dir import DataDir
from potluck.cli.logs import LogJson, LogLevel, log_console, logged
from potluck.cli.run import Change


def compare(
    methods: Annotated[
        list[str], typer.Argument(metavar="METHOD...", help="`potluck methods` lists them.", show_default=False)
    ],
    federation: Annotated[Path, typer.Option(metavar="FILE", help="A run file.", show_default=False)],
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds, from the file's on.")] = 5,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=a,b,c",
            help="Values to try for a setting, e.g. plan.lr=0.01,0.1. Repeatable.",
        ),
    ] = None,
    tune: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Have Optuna try N settings of each method, of those that --sweep names: also KEY=low..high[:log].",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder.", show_default="runs/compare-FILE")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 1,
    target: Annotated[
        float | None, typer.Option(help="A value of the metric: how long until it is reached?", show_default=False)
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="What to compare by: a column of the history.", show_default="the headline"),
    ] = None,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Also each model trained on everybody's data: the ceiling.")
    ] = False,
    cross: Annotated[bool, typer.Option("--cross", help="Also each model on everybody's test data.")] = False,
    engine: Annotated[str | None, typer.Option(help="auto, autotune, batched or serial; the results agree.")] = None,
    device: Annotated[str | None, typer.Option(help="A torch device such as cpu or cuda, or auto.")] = None,
    rounds: Annotated[int | None, typer.Option(min=0, help="How many rounds.")] = None,
    change: Change = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    log_json: LogJson = False,
) -> None:
    """Play methods on the same federations, and say which is better, by how much, at what cost.

    All methods of a seed get the same splits, first weights and participants.
    Local is always played. Each run has a folder of its own: the same command
    goes on where it was stopped, and plays nothing twice.
    """
    from potluck.comparison.compare import compare as play
    from potluck.engines import keep_freed_memory

    keep_freed_memory()
    console = log_console(log_json)
    options: list[tuple[str, Any]] = [
        (name, value)
        for name, value in (("engine", engine), ("device", device), ("rounds", rounds))
        if value is not None
    ]
    try:
        with logged(console, log_level, quiet="potluck.federation.federation"), progress(console) as bar:
            comparison = play(
                methods,
                federation,
                seeds=seeds,
                sweep=sweep or (),
                tune=tune,
                out=out,
                jobs=jobs,
                target=target,
                metric=metric,
                pooled=pooled,
                cross=cross,
                changes=change or (),
                options=options,
                watch=watch_rounds(bar),
            )
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        console.print("Stopped. The same command goes on.")
        raise typer.Exit(130) from None
    typer.echo(comparison.table())
    typer.echo(f"Kept in {comparison.folder}. A page of it: potluck report {comparison.folder}")
    if comparison.standings.failed:
        raise typer.Exit(1)
