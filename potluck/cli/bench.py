"""``potluck bench``: how fast this machine is, beside the figures in the docs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from potluck.cli.console import messages, waiting
from potluck.cli.logs import logged


def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this one: mlp, cnn, overhead, merging, transforms; with a GPU fedin, cofed. Repeatable."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results there.")] = None,
) -> None:
    """Measure this machine, and say where it stands against the figures in the docs.

    Rounds on the serial and the automatic engine, the engine's own cost, the
    server's merging, rounds with a transform; with a GPU also training steps against a plain PyTorch
    loop. It takes a minute or two on two cores. Leave the machine alone
    meanwhile: beside other work no figure means much.
    """
    from potluck.bench.measure import busy_warning, machine_in_words
    from potluck.bench.results import Results, load_reference, reference_table
    from potluck.bench.suite import selected
    from potluck.engines import keep_freed_memory
    from potluck.runs.machine import describe_machine

    keep_freed_memory()
    console, machine, figures = messages(), describe_machine(), []
    benchmarks = selected(only or [])
    with logged(console):
        for name, measure in benchmarks.items():
            with waiting(f"measuring: {name}", console):
                figures += measure()
    reference = load_reference()
    shown = Console(highlight=False)
    shown.print(f"{machine_in_words(machine)}\n", markup=False, soft_wrap=True)
    shown.print(reference_table(figures, reference).to_rich())
    if missing := [figure.name for figure in figures if figure.name not in reference]:
        shown.print(f"\nThe docs have no figure yet for {len(missing)} of {len(figures)}.", markup=False)
    if warning := busy_warning(machine):
        console.print(warning)
    if out is not None:
        Results("bench", figures, {"benchmarks": list(benchmarks)}, machine).write(out)
        typer.echo(f"Wrote {out}")
