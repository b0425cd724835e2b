"""The automatic engine's fixed rule beside the choice by the clock: rounds on a CPU, in turns, in one run.

python -m benchmarks.strategies
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer

from benchmarks.script import finish, run_script, say
from potluck.bench.measure import interleaved, ratios
from potluck.bench.results import Figure, Results, readable
from potluck.bench.scenarios import ALL_DIFFERENT, CNN, COFED, FEDIN, MLP, Scenario, federation
from potluck.engines import Autotune, Engine
from potluck.federation.federation import Federation
from potluck.methods import Local

HERE = Path(__file__).parent
GOAL = 0.9
"""Of the speed that the choice by the clock reaches."""

SCENARIOS = (
    MLP,
    CNN,
    FEDIN.replace(count=5, samples=160),
    COFED.replace(count=20, samples=250),
    ALL_DIFFERENT.replace(count=20, samples=250),
)
"""Those of the other benchmarks; the three that are meant for a GPU with fewer participants and samples."""

MOST_ROUNDS = 12
"""After which every strategy has been tried, however few participants have a network in common."""


def measure(scenario: Scenario, repeats: int) -> tuple[list[Figure], dict[str, list[str]]]:
    """Seconds for a round of local training with each engine, how fast the rule is beside the clock, and the strategies
    that each engine took."""
    joined = {engine: federation(scenario, engine, method=Local()) for engine in ("autotune", "auto")}
    finish_trials(joined["autotune"])
    timings = interleaved({engine: partial(f.run, 1) for engine, f in joined.items()}, repeats)
    faster = ratios(timings["autotune"].seconds, timings["auto"].seconds)
    figures = [
        *(Figure.timed(f"{scenario.name}, {engine}", timing, "s") for engine, timing in timings.items()),
        Figure.of(f"{scenario.name}, auto over autotune", faster, "×", "higher", GOAL),
    ]
    return figures, {engine: strategies(f.engine) for engine, f in joined.items()}


def finish_trials(federation: Federation) -> None:
    """Plays until the engine tries nothing any more."""
    engine = federation.engine
    assert isinstance(engine, Autotune)
    for _ in range(MOST_ROUNDS):
        before = copy.deepcopy(engine.trials.timings)
        federation.run(1)
        if engine.trials.timings == before:
            return


def strategies(engine: Engine) -> list[str]:
    """All that an engine uses, each once."""
    used = engine.decisions().get("strategies", {}).values()
    return sorted({strategy for one in used for strategy in one})


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each engine that count.")] = 7,
    only: Annotated[list[str] | None, typer.Option(help="The name of a scenario. Repeatable.")] = None,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "strategies.json",
) -> None:
    """Measure the rule beside the clock, and print and write the figures."""
    taken: dict[str, dict[str, list[str]]] = {}
    results = Results("strategies", [], {"repeats": repeats, "threads": torch.get_num_threads(), "strategies": taken})
    for scenario in SCENARIOS:
        if not only or scenario.name in only:
            figures, taken[scenario.name] = measure(scenario, repeats)
            results.figures.extend(figures)
            told = "; ".join(f"{engine}: {', '.join(used)}" for engine, used in taken[scenario.name].items())
            say(f"{scenario.name}: {readable(figures[-1].value)} × as fast ({told})")
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
