"""The engine's own cost: milliseconds for each participant and round when the models do nothing.

python -m benchmarks.overhead
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.script import finish, run_script
from potluck.bench.results import Results
from potluck.bench.scenarios import IDLE
from potluck.bench.suite import overhead

HERE = Path(__file__).parent


def main(
    participants: Annotated[int, typer.Option(min=2, help="How many.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 20,
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "overhead.json",
) -> None:
    """Measure the engines' own cost, and print and write the figures."""
    results = Results("overhead", [], {"participants": participants, "repeats": repeats, "device": device})
    results.figures.extend(overhead(repeats, IDLE.replace(count=participants), device))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
