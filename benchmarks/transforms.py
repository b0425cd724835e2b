"""What transforms and augmentations cost on the batched engine, by where they run.

python -m benchmarks.transforms
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import Tensor

from benchmarks.script import finish, run_script, say
from potluck.bench.measure import interleaved
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import CNN, SMALL_MLP, Scenario
from potluck.bench.suite import transforms
from potluck.data import Crop, Cutout, Flip, Normalize
from potluck.engines import make_engine
from potluck.engines.ready_inputs import ReadyInputs
from potluck.federation.federation import Federation
from potluck.methods import Local
from potluck.models import mlp

HERE = Path(__file__).parent
PICTURES = CNN.replace(name="pictures", models=(partial(mlp, hidden=(8,)),))
"""Pictures of 3×32×32 in batches of 50, for networks so small that it shows what is done to inputs."""

SHIPPED = (Crop(), Flip(), Cutout())


def by_the_batch(x: Tensor) -> Tensor:
    """Depends on which samples are in a batch."""
    return x / x.abs().max()


def as_a_function(x: Tensor, generator: torch.Generator) -> Tensor:
    """The shipped augmentations, for one participant after the other."""
    for one in SHIPPED:
        x = one(x, generator)
    return x


def of_one_picture(x: Tensor) -> Tensor:
    """The same for one picture after the other, as torchvision's transforms have it."""
    return as_a_function(x[None], torch.default_generator)[0]


KINDS: Mapping[str, dict[str, Any]] = {
    "no change": {},
    "per sample, kept": {"transform": Normalize(0.1, 0.3)},
    "per sample, over the budget": {"transform": Normalize(0.1, 0.3)},
    "by the batch": {"transform": by_the_batch},
    "crop, flip and cutout in two halves": {"augment": list(SHIPPED)},
    "the same as a function of a batch": {"augment": as_a_function},
    "the same of one picture at a time": {"augment": of_one_picture},
}


def kinds(repeats: int, scenario: Scenario = PICTURES, device: str = "cpu") -> list[Figure]:
    """Milliseconds that each kind takes for a participant and step, beyond a round in which nothing is changed."""
    joined = {name: _federation(scenario, name, changes, device) for name, changes in KINDS.items()}
    clock = time.process_time if device == "cpu" else time.perf_counter
    timings = interleaved({name: partial(f.run, 1) for name, f in joined.items()}, repeats, warm_up=2, clock=clock)
    plain = timings.pop("no change").seconds
    scale = 1000 / (scenario.count * scenario.steps)
    return [
        Figure.of(name, [scale * (mine - without) for mine, without in zip(timing.seconds, plain, strict=True)], "ms")
        for name, timing in timings.items()
    ]


def _federation(scenario: Scenario, name: str, changes: dict[str, Any], device: str) -> Federation:
    people = scenario.participants()
    for person in people:
        person.plan = person.plan.replace(**changes)
    federation = Federation(people, Local(), engine=make_engine("batched", device))
    if name.endswith("over the budget"):
        federation.engine.ready = ReadyInputs(budget=0)
    return federation


def main(
    participants: Annotated[int | None, typer.Option(min=2, help="Fewer than are usual.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 15,
    device: Annotated[str, typer.Option(help="A torch device.")] = "cpu",
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "transforms.json",
) -> None:
    """Measure rounds with transforms and augmentations, and print and write the figures."""
    results = Results("transforms", [], {"participants": participants, "repeats": repeats, "device": device})
    fewer = {} if participants is None else {"count": participants}
    say("one transform, written in ten ways …")
    results.figures.extend(transforms(repeats, SMALL_MLP.replace(**fewer), device))
    say("transforms and augmentations by where they run …")
    results.figures.extend(kinds(repeats, PICTURES.replace(**fewer), device))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
