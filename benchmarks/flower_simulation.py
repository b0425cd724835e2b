"""Flower's simulation of many participants against the serial and the batched engine: seconds for the same history.

    python -m benchmarks.flower_simulation

Needs the extra `simulation`. Participants train a small network on generated data; FedAvg.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import potluck
from benchmarks.script import finish, run_script
from potluck.bench.results import Figure, Results
from potluck.flower.config import read_federation, read_participant
from potluck.flower.processes import APP, Program, environment, flwr, free_port, wait_for_port

HERE = Path(__file__).parent
ROOT = HERE.parent
OUT = HERE / "results" / "flower_simulation.json"
LIMIT = 3600.0
STATUS_INTERVAL = 10.0
"""Seconds between two looks whether the simulation still runs."""


def dataset(number: int, rows: int = 64) -> Any:
    """One participant's data."""
    random = np.random.default_rng(number)
    y = np.resize(np.arange(10), rows)
    x = random.normal(size=(rows, 32)).astype("float32")
    x[np.arange(rows), y] += 2
    return x, y


def write(folder: Path, participants: int, rounds: int) -> Path:
    """The files of a federation."""
    names = [f"p{number}" for number in range(participants)]
    participants_toml = "\n".join(f'[[participants]]\nname = "{name}"' for name in names)
    (folder / "server.toml").write_text(f'rounds = {rounds}\nmethod = "FedAvg"\ndevice = "cpu"\n{participants_toml}\n')
    for number, name in enumerate(names):
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nmodel = "mlp"\ndevice = "cpu"\nplan = {{ epochs = 1, batch_size = 16 }}\n'
            f'data = {{ name = "benchmarks.flower_simulation:dataset", number = {number} }}\n'
            f'test = {{ name = "benchmarks.flower_simulation:dataset", number = 10000 }}\n'
        )
    return folder / "server.toml"


def on_engine(path: Path, engine: str) -> float:
    """Seconds on one of Potluck's engines."""
    file = read_federation(path)
    people = [read_participant(path.parent / f"{name}.toml").build() for name in file.names]
    federation = potluck.Federation(people, file.build_method(), seed=file.seed, engine=engine, device="cpu")
    began = time.monotonic()
    federation.run(file.rounds)
    return time.monotonic() - began


def simulated(path: Path, participants: int, cpus: int) -> float:
    """Seconds in Flower's simulation, from the start of the run to its end."""
    folder, port = path.parent, free_port()
    home, progress = folder / "flower", folder / "progress.log"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "sim"\n[superlink.sim]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    settings = environment(home, PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    link = ["flower-superlink", "--insecure", "--simulation", "--port", str(port)]
    program = Program([*link, "--disable-runtime-dependency-installation"], settings, folder / "superlink.log")
    try:
        wait_for_port(port, program)
        names = {"federation": path, "out": folder / "run", "progress": progress, "state": folder / "states"}
        config = " ".join(f"{name}={json.dumps(str(value))}" for name, value in names.items())
        nodes = f"num-supernodes={participants} client-resources-num-cpus={cpus}"
        began = time.monotonic()
        flwr(settings, "run", str(APP), "sim", "--run-config", config, "--federation-config", nodes)
        looked = began
        while not progress.with_suffix(".end").exists():
            if time.monotonic() - began > LIMIT or program.ended is not None:
                raise SystemExit(program.tail(50))
            if time.monotonic() - looked > STATUS_INTERVAL:
                run = flwr(settings, "list", "sim")["runs"][0]
                if run["status"] == "finished:failed":
                    raise SystemExit(f"Flower's simulation failed: {run['status-details']}\n{program.tail(50)}")
                looked = time.monotonic()
            time.sleep(0.1)
        return time.monotonic() - began
    finally:
        program.stop()


def figures(participants: int, seconds: dict[str, float]) -> list[Figure]:
    """Seconds of each, and how many times as fast as Flower's simulation the engines are."""
    name, flower = f"{participants} participants", seconds["Flower's simulation"]
    found = [Figure.of(f"{name}: {engine}", [taken], "s") for engine, taken in seconds.items()]
    for engine in ("serial", "batched"):
        over = flower / seconds[engine]
        found.append(Figure.of(f"{name}: {engine} over Flower's simulation", [over], "×", "higher"))
    return found


def main(
    participants: Annotated[int, typer.Option(min=2, help="How many.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to run.")] = 3,
    cpus: Annotated[int, typer.Option(min=1, help="CPUs of each of the simulation's workers.")] = 1,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = OUT,
) -> None:
    """Measure a whole run on each engine and in Flower's simulation, and print and write the figures."""
    results = Results("flower_simulation", [], {"participants": participants, "rounds": rounds, "cpus": cpus})
    with tempfile.TemporaryDirectory(prefix="potluck-benchmark-") as folder:
        path = write(Path(folder), participants, rounds)
        seconds = {engine: on_engine(path, engine) for engine in ("serial", "batched")}
        seconds["Flower's simulation"] = simulated(path, participants, cpus)
    results.figures.extend(figures(participants, seconds))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
