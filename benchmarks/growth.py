"""How cost grows with participants and rounds: seconds and memory, each number of participants in its own process.

python -m benchmarks.growth
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.script import finish, run_script, say
from potluck.bench.measure import Timing
from potluck.bench.results import Figure, Results
from potluck.core.errors import PotluckError
from potluck.report.progress import need_matplotlib

HERE = Path(__file__).parent
COUNTS = (10, 100, 1_000, 10_000)
GOAL = 1.3
"""How many times the memory of a tenth of the participants the largest federation may hold."""

Measured = dict[str, Any]


def run(count: int, options: list[str]) -> Measured:
    """One federation in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth_rounds", str(count), *options]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent)
    if ended.returncode != 0:
        raise PotluckError(f"{count} participants ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    found: Measured = json.loads(ended.stdout.splitlines()[-1])
    return found


def figures(measured: dict[int, Measured]) -> list[Figure]:
    """Milliseconds for each participant and round, memory, and how both grow from the second largest to the largest."""
    found = []
    for count, one in measured.items():
        first, *others = one["seconds"]
        found += [
            Figure.timed(f"{count:,}: each round and participant", Timing(first, tuple(others)), "ms", 1000 / count),
            Figure.of(f"{count:,}: setting up", [one["setting_up"]], "s"),
            Figure.of(f"{count:,}: most memory", [max(one["memory"]) / 2**20], "MiB"),
        ]
    if len(measured) > 1:
        *_, smaller, largest = sorted(measured)
        names = f"{largest:,} over {smaller:,}"
        by_name = {figure.name: figure.value for figure in found}
        for what, goal in (("most memory", GOAL), ("each round and participant", None)):
            grown = by_name[f"{largest:,}: {what}"] / by_name[f"{smaller:,}: {what}"]
            found.append(Figure.of(f"{names}: {what}", [grown], "×", goal=goal))
    return found


def draw(measured: dict[int, Measured], path: Path) -> None:
    """Seconds and memory after every round but the first, over the work done so far: participants times rounds."""
    need_matplotlib()
    from matplotlib.figure import Figure as Picture

    picture = Picture(figsize=(9.0, 3.6), dpi=200, layout="constrained")
    left, right = picture.subplots(1, 2)
    ends = []
    for count, one in measured.items():
        gone = list(accumulate(one["seconds"][1:]))
        work = [count * number for number in range(1, len(gone) + 1)]
        ends.append((work[-1], gone[-1]))
        left.plot(work, gone, "o-", ms=4, label=f"{count:,} participants")
        right.plot(work, [peak / 2**20 for peak in one["memory"][1:]], "o-", ms=4)
    most, longest = max(ends)
    reach = [min(work for work, _ in ends) / 4, most]
    left.plot(reach, [longest / most * work for work in reach], "--", color="grey", lw=1, zorder=0, label="linear")
    for axes, title in ((left, "seconds of all rounds so far"), (right, "most memory held so far, MiB")):
        axes.set_xscale("log")
        axes.set_xlabel("participants × rounds so far")
        axes.set_title(title, size=10)
        axes.grid(alpha=0.3)
    left.set_yscale("log")
    left.legend(fontsize=8)
    right.set_ylim(0, 1.1 * right.get_ylim()[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.savefig(path, metadata={"Software": None})


def main(
    participants: Annotated[list[int] | None, typer.Option(help="How many. Repeatable.")] = None,
    samples: Annotated[int, typer.Option(min=2, help="Samples of each participant.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count, after the first.")] = 3,
    engine: Annotated[str, typer.Option(help="auto, autotune, batched or serial.")] = "auto",
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
    max_concurrent: Annotated[int, typer.Option(min=1, help="How many participants are in memory at a time.")] = 100,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "growth.json",
    plot: Annotated[Path, typer.Option(help="Where the picture goes.")] = HERE / "results" / "growth.png",
) -> None:
    """Measure growth, print and write the figures, and draw them."""
    need_matplotlib()
    options = ["--samples", str(samples), "--rounds", str(rounds + 1), "--engine", engine, "--device", device]
    options += ["--max-concurrent", str(max_concurrent)]
    results = Results("growth", [])
    measured: dict[int, Measured] = {}
    for count in sorted(participants or COUNTS):
        measured[count] = run(count, options)
        say(f"{count:,} participants: {' '.join(f'{seconds:.2f}' for seconds in measured[count]['seconds'])} s")
    results.settings.update(
        samples=samples, rounds=rounds, engine=engine, device=device, max_concurrent=max_concurrent, measured=measured
    )
    results.figures.extend(figures(measured))
    finish(results, out)
    draw(measured, plot)
    say(f"Wrote {plot}")


if __name__ == "__main__":
    run_script(main)
