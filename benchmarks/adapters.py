"""Memory and time of participants with low-rank adapters on one frozen base, held once or by each of them.

python -m benchmarks.adapters
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from torch import nn

import potluck
from benchmarks.memory import peak_memory
from benchmarks.script import finish, run_script, say
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import Scenario
from potluck.engines import keep_freed_memory
from potluck.methods import Local
from potluck.models import lora, mlp

HERE = Path(__file__).parent
WIDTHS, RANK, MIB = (2048, 2560, 1280), 4, 2**20
ONCE, EACH = "one base held once", "a base for each"


class Found(NamedTuple):
    """What one process measured, in bytes and seconds."""

    base: int
    trained: int
    at_rest: int
    in_round: int
    seconds: float


def measured(count: int, samples: int, engine: str, share_base: bool) -> Found:
    """A round of training, in a process that does nothing else."""
    keep_freed_memory()
    base = mlp((784,), 10, hidden=WIDTHS)
    plan = potluck.Plan(optimizer="adam", batch_size=samples)
    scenario = Scenario("adapters", (base,), count, samples, (784,), plan)
    start = peak_memory()
    people = [
        potluck.Participant(f"p{i:05d}", lora(base, RANK, share_base=share_base), data, plan=plan, labels=range(10))
        for i, data in enumerate(scenario.datasets())
    ]
    at_rest = peak_memory() - start
    federation = potluck.Federation(people, Local(), engine=engine)
    began = time.perf_counter()
    federation.run(1)
    seconds = time.perf_counter() - began
    return Found(size(base), sum(size(p.model, True) for p in people), at_rest, peak_memory() - start, seconds)


def size(module: nn.Module, trained: bool = False) -> int:
    """How many bytes a network's parameters have, or those that are trained."""
    return sum(p.numel() * p.element_size() for p in module.parameters() if p.requires_grad or not trained)


def figures(count: int, samples: int, engine: str) -> Iterator[Figure]:
    """What there is to hold, and what was held beside the first base."""
    for name, shared in ((ONCE, True), (EACH, False)):
        with get_context("spawn").Pool(1) as process:
            found = process.apply(measured, (count, samples, engine, shared))
        say(f"{name}: {found.seconds:.1f} s")
        if shared:
            yield Figure.of("the base", [found.base / MIB], "MiB")
            yield Figure.of(f"{count} adapters and heads", [found.trained / MIB], "MiB")
        yield Figure.of(f"{name}: more at rest", [found.at_rest / MIB], "MiB")
        yield Figure.of(f"{name}: more in a round", [found.in_round / MIB], "MiB")
        yield Figure.of(f"{name}: a round", [found.seconds], "s")


def main(
    participants: Annotated[int, typer.Option(min=2, help="How many.")] = 50,
    samples: Annotated[int, typer.Option(min=2, help="How many each has, all in one batch.")] = 32,
    engine: Annotated[str, typer.Option(help="The engine.")] = "batched",
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "adapters.json",
) -> None:
    """Measure both ways, each in a process of its own, and print and write the figures."""
    results = Results("adapters", [], {"participants": participants, "samples": samples, "engine": engine})
    results.figures.extend(figures(participants, samples, engine))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
