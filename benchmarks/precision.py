"""What a lower precision does to accuracy: one federation in every precision, over several seeds.

python -m benchmarks.precision
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean, stdev
from typing import Annotated, get_args

import typer

from benchmarks.script import finish, run_script, say
from potluck import Federation, Participant, Plan
from potluck.bench.results import Figure, Results
from potluck.data import digits, iid
from potluck.engines.hardware import Precision
from potluck.methods import FedAvg

HERE = Path(__file__).parent
PLAN = Plan(optimizer="adam", lr=1e-3, epochs=2, batch_size=16)


def accuracy(precision: str, seed: int, participants: int, rounds: int, device: str) -> float:
    """Percent of the digits that FedAvg's CNNs get right at the end."""
    source = digits()
    indices = iid(source.y, participants, seed).indices
    federation = Federation(
        [
            Participant(f"p{i}", "cofed1", (source.x[rows], source.y[rows]), plan=PLAN, labels=range(10))
            for i, rows in enumerate(indices)
        ],
        FedAvg(),
        test=(source.x_test, source.y_test),
        seed=seed,
        device=device,
        precision=precision,
    )
    found = federation.run(rounds).final.accuracy
    assert found is not None
    return 100 * found


def main(
    seeds: Annotated[int, typer.Option(min=2, help="How many.")] = 5,
    participants: Annotated[int, typer.Option(min=2)] = 10,
    rounds: Annotated[int, typer.Option(min=1)] = 10,
    device: Annotated[str, typer.Option(help="A torch device.")] = "auto",
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "precision.json",
) -> None:
    """Measure accuracy in every precision, and print and write the figures."""
    settings = {"seeds": seeds, "participants": participants, "rounds": rounds, "device": device}
    results = Results("precision", [], settings)
    for precision in get_args(Precision):
        found = [accuracy(precision, seed, participants, rounds, device) for seed in range(seeds)]
        say(f"{precision}: {mean(found):.2f} ± {stdev(found):.2f} %")
        results.figures.append(Figure.of(f"accuracy in {precision}", found, "%", "higher"))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
