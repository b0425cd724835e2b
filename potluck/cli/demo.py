"""``potluck demo``: what participants with different models reach alone and together, in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def demo(
    out: Annotated[Path, typer.Option(help="Where the picture and the page go.")] = Path("demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds it is run with.")] = 5,
) -> None:
    """Show what each reaches alone and together, on real data, with models of many kinds."""
    from potluck.demo.play import run_demo
    from potluck.engines import keep_freed_memory

    keep_freed_memory()
    run_demo(out, seeds, Console())
