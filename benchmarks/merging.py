"""The server's merging beside the machine's copy bandwidth, in the same run.

python -m benchmarks.merging
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.script import finish, run_script
from potluck.bench.results import Results
from potluck.bench.suite import merging

HERE = Path(__file__).parent


def main(
    senders: Annotated[int, typer.Option(min=1, help="How many send answers.")] = 100,
    repeats: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 5,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "merging.json",
) -> None:
    """Measure the server's merging, and print and write the figures."""
    results = Results("merging", [], {"senders": senders, "repeats": repeats})
    results.figures.extend(merging(repeats, senders, checking=True))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
