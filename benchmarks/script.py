"""What the scripts in ``benchmarks/`` have in common: options, errors in one line, a table and a file at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import typer
from rich.console import Console

from potluck.bench.measure import busy_warning
from potluck.bench.results import Results
from potluck.core.errors import PotluckError
from potluck.engines import keep_freed_memory


def run_script(main: Callable[..., None]) -> None:
    """Runs a function as a command."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    app.command()(main)
    keep_freed_memory()
    try:
        app()
    except PotluckError as error:
        sys.exit(f"Error: {error}")


def say(text: str) -> None:
    """Tells whoever waits how it is going."""
    Console(highlight=False).print(text, markup=False, soft_wrap=True)


def finish(results: Results, out: Path) -> None:
    """Prints the figures and writes them."""
    console = Console(highlight=False)
    console.print(results.table().to_rich())
    if warning := busy_warning(results.machine):
        say(warning)
    results.write(out)
    say(f"Wrote {out}")
