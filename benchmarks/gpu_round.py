"""Training on a GPU, for each participant and step: a plain eager PyTorch loop beside the engine.

python -m benchmarks.gpu_round
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from benchmarks.script import finish, run_script, say
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import ALL_DIFFERENT, COFED, FEDIN, Scenario
from potluck.bench.steps import eager_against_engine
from potluck.core.errors import SettingsError, nearest
from potluck.engines import pick_device

HERE = Path(__file__).parent
FEDERATIONS: dict[str, Scenario] = {"fedin": FEDIN, "cofed": COFED, "different": ALL_DIFFERENT}
GOALS = {"fedin": 10.0, "cofed": 8.0}
"""How many times as fast as the eager loop a step is to be."""


def measure(name: str, scenario: Scenario, device: str, repeats: int, precision: str | None) -> list[Figure]:
    """One federation in one precision, and the most memory it held on the GPU."""
    options: dict[str, Any] = {} if precision is None else {"precision": precision}
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    found = eager_against_engine(scenario, device, repeats, goal=GOALS.get(name), **options)
    if device != "cpu":
        told = " ".join([f"{scenario.name} {scenario.count}", *options.values()])
        found.append(Figure.of(f"{told}: most GPU memory", [torch.cuda.max_memory_allocated() / 2**30], "GiB"))
        torch.cuda.empty_cache()
    return found


def main(
    only: Annotated[list[str] | None, typer.Option(help="fedin, cofed or different. Repeatable.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each is timed.")] = 5,
    participants: Annotated[int | None, typer.Option(min=1, help="Fewer than a hundred.")] = None,
    samples: Annotated[int | None, typer.Option(min=2, help="Samples of each participant.")] = None,
    precision: Annotated[list[str] | None, typer.Option(help="Measure also in this precision. Repeatable.")] = None,
    device: Annotated[str, typer.Option(help="A torch device.")] = "cuda",
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "gpu_round.json",
) -> None:
    """Measure training steps on a GPU, and print and write the figures."""
    pick_device(device)
    results = Results("gpu_round", [], {"repeats": repeats, "device": device, "precision": precision or []})
    changes = {"count": participants, "samples": samples}
    for name in only or FEDERATIONS:
        if name not in FEDERATIONS:
            raise SettingsError(f"There is no federation {name!r}.{nearest(name, FEDERATIONS)}")
        scenario = FEDERATIONS[name].replace(**{key: value for key, value in changes.items() if value is not None})
        for each in (None, *(precision or [])):
            say(f"{scenario.name} {scenario.count}, precision {each or 'as it is'} …")
            results.figures.extend(measure(name, scenario, device, repeats, each))
            results.write(out)  # so that what was measured stays, whatever comes next
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
