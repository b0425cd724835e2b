"""Rounds with one worker of the engine ray and with two, in turns, in one run; each computes with one thread.

python -m benchmarks.ray_workers
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.script import finish, run_script, say
from potluck.bench.measure import interleaved, ratios
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import CNN, MLP, Scenario, federation
from potluck.engines import Ray
from potluck.federation.federation import Federation

HERE = Path(__file__).parent
GOAL = 1.6
"""How many times as fast two workers are to be as one, where training dominates."""
EPOCHS = 5
SCENARIOS = tuple(one.replace(plan=one.plan.replace(epochs=EPOCHS)) for one in (MLP.replace(count=32), CNN))


def measure(scenario: Scenario, repeats: int) -> list[Figure]:
    """Seconds for a round with one worker and with two, and their ratio."""
    joined = {workers: played(scenario, workers) for workers in (1, 2)}
    timings = interleaved({str(workers): partial(f.run, 1) for workers, f in joined.items()}, repeats)
    faster = ratios(timings["1"].seconds, timings["2"].seconds)
    return [
        Figure.timed(f"{scenario.name}, one worker", timings["1"], "s"),
        Figure.timed(f"{scenario.name}, two workers", timings["2"], "s"),
        Figure.of(f"{scenario.name}, two workers over one", faster, "×", "higher", GOAL),
    ]


def played(scenario: Scenario, workers: int) -> Federation:
    """A federation that has joined, and has played a round."""
    found = federation(scenario, Ray(torch.device("cpu"), workers=workers))
    found.run(1)
    return found


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each that count.")] = 5,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "ray_workers.json",
) -> None:
    """Measure two workers beside one, and print and write the figures."""
    results = Results("ray workers", [], {"repeats": repeats, "epochs": EPOCHS, "threads": 1})
    for scenario in SCENARIOS:
        say(f"{scenario.name}: {scenario.count} participants")
        results.figures.extend(measure(scenario, repeats))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
