"""Seconds for a round on a CPU: Potluck's engines beside pfl-research and Flower's simulation.

Every way runs in a process of its own, on the same data, from the same weights: FedAvg, all clients, one local epoch.
The ways take turns, block by block, so that ratios come from one run. Peers run in an interpreter of their own
(``requirements-peers.txt``); without one they are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
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
class Way:
    """One way to play rounds: the command, without folder, output and number of rounds; what it needs set."""

    name: str
    command: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Played:
    """What came of one block of one way."""

    seconds: list[float]
    loss: float


def own_ways(cores: int) -> list[Way]:
    """The serial engine, and the automatic one, with as many threads as cores."""
    command = [sys.executable, str(HERE / "peers" / "potluck_fedavg.py"), "--threads", str(cores)]
    return [Way(engine, [*command, "--engine", engine], {}) for engine in ("serial", "auto")]


def peer_ways(python: str | None, cores: int) -> list[Way]:
    """The peers that an interpreter has; says which are left out, and why."""
    if python is None:
        say("Without --peers-python the peers are left out: pfl-research, Flower.")
        return []
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(cores)]
    workers = [python, *launch, str(HERE / "peers" / "pfl_fedavg.py"), "--threads", "1"]
    simulation = [python, str(HERE / "peers" / "flower_fedavg.py"), "--cores", str(cores)]
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(HERE / "peers")}
    needed = {
        "torch pfl": [Way("pfl-research", workers, {"OMP_NUM_THREADS": "1"})],
        "torch flwr ray": [
            Way("Flower", simulation, quiet),
            Way("Flower, DataLoader", [*simulation, "--loader"], quiet),
        ],
    }
    found = []
    for modules, ways in needed.items():
        if missing := _missing(python, modules.split()):
            say(f"{ways[0].name} is left out: {missing}")
        else:
            found += ways
    return found


def _missing(python: str, modules: Iterable[str]) -> str | None:
    """Why an interpreter cannot be used for a peer; None if it can."""
    look = "import sys; from importlib.util import find_spec; print(*(m for m in sys.argv[1:] if not find_spec(m)))"
    try:
        told = subprocess.run([python, "-c", look, *modules], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"{python} cannot be used: {error}."
    return f"{python} has no {', '.join(told.stdout.split())}." if told.stdout.split() else None


def lay_out(scenario: Scenario, folder: Path) -> None:
    """Writes what all ways read: settings, data, and the weights that Potluck's own federation would start from."""
    plan = scenario.plan
    settings = {"model": scenario.name, "optimizer": plan.optimizer, "lr": plan.lr, "batch_size": plan.batch_size}
    (folder / "federation.json").write_text(json.dumps(settings))
    shares = list(scenario.shares())
    np.save(folder / "x.npy", np.stack([x for x, _ in shares]))
    np.save(folder / "y.npy", np.stack([y for _, y in shares]))
    first = federation(scenario.replace(count=1), "serial").participants["p00000"].weights()
    entries: dict[str, Any] = {name: entry.numpy() for name, entry in first.items()}
    np.savez(folder / "start.npz", **entries)


def play(way: Way, scenario: Scenario, folder: Path, rounds: int) -> Played:
    """One block: so many rounds in a process of its own. A peer may crash once without costing the other blocks."""
    out = folder / "played.json"
    command = [*way.command, str(folder), str(out), "--rounds", str(rounds)]
    for attempts_left in (1, 0):
        out.unlink(missing_ok=True)
        ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **way.environment})
        if ended.returncode == 0 and out.exists():
            break
        if not attempts_left:
            raise PotluckError(f"{way.name} ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
        say(f"{way.name} ended with {ended.returncode}: this block is played again.")
    seconds = json.loads(out.read_text())["seconds"]
    return Played(seconds, loss_of(scenario, folder, out.with_suffix(".npz")))


def loss_of(scenario: Scenario, folder: Path, weights: Path) -> float:
    """The mean cross-entropy on everybody's data: shows that a way has trained, and how far."""
    model = build(scenario.models[0], scenario.shape, scenario.classes)
    model.load_state_dict({name: torch.from_numpy(entry) for name, entry in np.load(weights).items()})
    x, y = np.load(folder / "x.npy", mmap_mode="r"), torch.from_numpy(np.load(folder / "y.npy"))
    with torch.no_grad():
        each = [F.cross_entropy(model(torch.from_numpy(x[i].copy())), y[i]).item() for i in range(len(y))]
    return sum(each) / len(each)


def figures(scenario: Scenario, blocks: dict[str, list[Played]], before: float) -> list[Figure]:
    """Seconds of each way, losses, and how many times as fast the automatic engine is, block by block."""
    name = f"{scenario.name} round"
    found = []
    for way, played in blocks.items():
        after_first = [second for block in played for second in block.seconds[1:]]
        first = median(block.seconds[0] for block in played)
        found.append(Figure.timed(f"{name}, {way}", Timing(first, tuple(after_first)), "s"))
    middles = {way: [median(block.seconds[1:]) for block in played] for way, played in blocks.items()}
    for way, seconds in middles.items():
        if way != "auto" and "auto" in middles:
            faster = ratios(seconds, middles["auto"])
            goal = GOALS.get((scenario.name, way))
            found.append(Figure.of(f"{name}, auto over {way}", faster, "×", "higher", goal))
    found.append(Figure.of(f"{scenario.name} loss, before", [before], ""))
    found += [Figure.of(f"{scenario.name} loss, {way}", [b.loss for b in played], "") for way, played in blocks.items()]
    return found


def measure(scenario: Scenario, ways: list[Way], blocks: int, rounds: int) -> list[Figure]:
    """All blocks of all ways in turns. The first round of a block is apart."""
    played: dict[str, list[Played]] = {way.name: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="potluck-bench-") as told:
        folder = Path(told)
        lay_out(scenario, folder)
        before = loss_of(scenario, folder, folder / "start.npz")
        for block in range(blocks):
            for way in ways:
                one = play(way, scenario, folder, rounds + 1)
                played[way.name].append(one)
                seconds = " ".join(f"{second:.2f}" for second in one.seconds)
                say(f"{scenario.name}, block {block + 1}, {way.name}: {seconds} s, loss {before:.3f} → {one.loss:.3f}")
    return figures(scenario, played, before)


def main(
    peers_python: Annotated[str | None, typer.Option(help="An interpreter with pfl and flwr[simulation].")] = None,
    blocks: Annotated[int, typer.Option(min=1, help="How often every way gets its turn.")] = 5,
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
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # every way inherits it

    ways = [*own_ways(cores), *peer_ways(peers_python, cores)]
    settings: dict[str, Any] = {"blocks": blocks, "rounds": rounds, "cores": cores, "ways": [way.name for way in ways]}
    results = Results("cpu_round", [], settings)
    for name in only or scenarios:
        results.figures.extend(measure(scenarios[name], ways, blocks, rounds))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
