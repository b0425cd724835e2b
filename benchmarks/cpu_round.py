"""Seconds for a round on a CPU: Potluck's engines beside pfl-research and Flower's simulation.

    python -m benchmarks.cpu_round

Each engine and library is a contestant: it runs in a process of its own, on the same data, from the same weights
(FedAvg, all clients, one local epoch). Contestants take turns, block by block, so that ratios come from one run. Other
libraries run in an interpreter of their own (``requirements-peers.txt``); without one they are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
import typer

from benchmarks.script import finish, run_script, say
from potluck.bench.measure import Timing, ratios
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import CNN, MLP, Scenario, federation
from potluck.core.errors import PotluckError, SettingsError
from potluck.models import build

HERE = Path(__file__).parent
GOALS = {
    ("MLP", "serial"): 1.5,
    ("MLP", "pfl-research"): 0.9,  # level: within 10 %
    ("MLP", "Flower"): 3.0,
    ("CNN", "serial"): 1.2,
    ("CNN", "pfl-research"): 0.9,
}
"""How many times as fast as the other the automatic engine is to be."""


@dataclass(frozen=True)
class Contestant:
    """An engine or a library that runs the same rounds as the others.

    Args:
        name: what figures call it.
        command: what starts it; the folder, the output and the number of rounds are added.
        environment: the variables it needs set; by default none.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """What came of one block of rounds.

    Args:
        seconds: how long each round took; the first also prepares things.
        loss: the global model's after the last.
    """

    seconds: list[float]
    loss: float


def own_engines(cores: int) -> list[Contestant]:
    """The serial engine, and the automatic one, with as many threads as cores."""
    command = [sys.executable, str(HERE / "peers" / "potluck_fedavg.py"), "--threads", str(cores)]
    return [Contestant(engine, [*command, "--engine", engine]) for engine in ("serial", "auto")]


def peer_libraries(python: str | None, cores: int) -> list[Contestant]:
    """The peers that an interpreter has; says which are left out, and why."""
    if python is None:
        say("Without --peers-python the peers are left out: pfl-research, Flower.")
        return []
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(cores)]
    workers = [python, *launch, str(HERE / "peers" / "pfl_fedavg.py"), "--threads", "1"]
    simulation = [python, str(HERE / "peers" / "flower_fedavg.py"), "--cores", str(cores)]
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(HERE / "peers")}
    needed = {
        "torch pfl": [Contestant("pfl-research", workers, {"OMP_NUM_THREADS": "1"})],
        "torch flwr ray": [
            Contestant("Flower", simulation, quiet),
            Contestant("Flower, DataLoader", [*simulation, "--loader"], quiet),
        ],
    }
    found = []
    for modules, contestants in needed.items():
        if missing := _missing(python, modules.split()):
            say(f"{contestants[0].name} is left out: {missing}")
        else:
            found += contestants
    return found


def _missing(python: str, modules: Iterable[str]) -> str | None:
    """Why an interpreter cannot be used for a peer; None if it can."""
    look = "import sys; from importlib.util import find_spec; print(*(m for m in sys.argv[1:] if not find_spec(m)))"
    try:
        answer = subprocess.run([python, "-c", look, *modules], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{python} cannot be used: {error}."
    return f"{python} has no {', '.join(answer.stdout.split())}." if answer.stdout.split() else None


def write_inputs(scenario: Scenario, folder: Path) -> None:
    """Writes what all contestants read: settings, data, and the weights that Potluck's federation would start from."""
    plan = scenario.plan
    settings = {"model": scenario.name, "optimizer": plan.optimizer, "lr": plan.lr, "batch_size": plan.batch_size}
    (folder / "federation.json").write_text(json.dumps(settings))
    datasets = list(scenario.datasets())
    np.save(folder / "x.npy", np.stack([x for x, _ in datasets]))
    np.save(folder / "y.npy", np.stack([y for _, y in datasets]))
    first = federation(scenario.replace(count=1), "serial").participants["p00000"].weights()
    entries: dict[str, Any] = {name: entry.numpy() for name, entry in first.items()}
    np.savez(folder / "start.npz", **entries)


def run_block(contestant: Contestant, scenario: Scenario, folder: Path, rounds: int) -> Block:
    """One block: so many rounds in a process of its own. A peer may crash once without costing the other blocks."""
    out = folder / "block.json"
    command = [*contestant.command, str(folder), str(out), "--rounds", str(rounds)]
    for attempts_left in (1, 0):
        out.unlink(missing_ok=True)
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **contestant.environment})
        if ended.returncode == 0 and out.exists():
            break
        if not attempts_left:
            raise PotluckError(f"{contestant.name} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
        say(f"{contestant.name} ended with {ended.returncode}: this block is run again.")
    seconds = json.loads(out.read_text())["seconds"]
    return Block(seconds, loss_of(scenario, folder, out.with_suffix(".npz")))


def loss_of(scenario: Scenario, folder: Path, weights: Path) -> float:
    """The mean cross-entropy on everybody's data: shows that a contestant has trained, and how far."""
    model = build(scenario.models[0], scenario.shape, scenario.classes)
    model.load_state_dict({name: torch.from_numpy(entry) for name, entry in np.load(weights).items()})
    x, y = np.load(folder / "x.npy", mmap_mode="r"), torch.from_numpy(np.load(folder / "y.npy"))
    with torch.no_grad():
        each = [F.cross_entropy(model(torch.from_numpy(x[i].copy())), y[i]).item() for i in range(len(y))]
    return sum(each) / len(each)


def figures(scenario: Scenario, blocks: dict[str, list[Block]], before: float) -> list[Figure]:
    """Seconds of each contestant, losses, and how many times as fast the automatic engine is, block by block."""
    name = f"{scenario.name} round"
    found = []
    for contestant, own in blocks.items():
        after_first = [second for block in own for second in block.seconds[1:]]
        first = median(block.seconds[0] for block in own)
        found.append(Figure.timed(f"{name}, {contestant}", Timing(first, tuple(after_first)), "s"))
    medians = {contestant: [median(block.seconds[1:]) for block in own] for contestant, own in blocks.items()}
    for contestant, seconds in medians.items():
        if contestant != "auto" and "auto" in medians:
            faster = ratios(seconds, medians["auto"])
            goal = GOALS.get((scenario.name, contestant))
            found.append(Figure.of(f"{name}, auto over {contestant}", faster, "×", "higher", goal))
    found.append(Figure.of(f"{scenario.name} loss, before", [before], ""))
    for contestant, own in blocks.items():
        found.append(Figure.of(f"{scenario.name} loss, {contestant}", [block.loss for block in own], ""))
    return found


def measure(scenario: Scenario, contestants: list[Contestant], blocks: int, rounds: int) -> list[Figure]:
    """All blocks of all contestants in turns. The first round of a block is apart."""
    finished: dict[str, list[Block]] = {contestant.name: [] for contestant in contestants}
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as temporary:
        folder = Path(temporary)
        write_inputs(scenario, folder)
        before = loss_of(scenario, folder, folder / "start.npz")
        for number in range(1, blocks + 1):
            for contestant in contestants:
                block = run_block(contestant, scenario, folder, rounds + 1)
                finished[contestant.name].append(block)
                seconds = " ".join(f"{second:.2f}" for second in block.seconds)
                loss = f"{before:.3f} → {block.loss:.3f}"
                say(f"{scenario.name}, block {number}, {contestant.name}: {seconds} s, loss {loss}")
    return figures(scenario, finished, before)


def main(
    peers_python: Annotated[str | None, typer.Option(help="An interpreter with pfl and flwr[simulation].")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="How often each contestant gets its turn.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count in each block, after the first.")] = 5,
    cores: Annotated[int, typer.Option(min=1, help="Cores to use: threads, or workers of peers.")] = 2,
    only: Annotated[list[str] | None, typer.Option(help="MLP or CNN. Repeatable.")] = None,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = HERE / "results" / "cpu_round.json",
) -> None:
    """Measure rounds on a CPU, and print and write the figures."""
    scenarios: dict[str, Scenario] = {scenario.name: scenario for scenario in (MLP, CNN)}
    if unknown := set(only or []) - set(scenarios):
        raise SettingsError(f"There is no federation {min(unknown)!r}; expected MLP or CNN.")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # every contestant inherits it

    contestants = [*own_engines(cores), *peer_libraries(peers_python, cores)]
    settings: dict[str, Any] = {"blocks": blocks, "rounds": rounds, "cores": cores}
    settings["contestants"] = [contestant.name for contestant in contestants]
    results = Results("cpu_round", [], settings)
    for name in only or scenarios:
        results.figures.extend(measure(scenarios[name], contestants, blocks, rounds))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
