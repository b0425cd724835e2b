"""What a round over Flower costs, beside a minimal app of Flower's own, measured in the same run.

    python -m benchmarks.flower_rounds

Everything runs on this machine, on loopback, without TLS. Flower's minimal app answers each message with an empty one;
its server uses Flower's own `send_and_receive`. The first round of each is left out: it installs the app on the nodes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.script import finish, run_script, say
from potluck.bench.results import Figure, Results
from potluck.flower.config import read_federation
from potluck.flower.processes import Program, environment, flwr, free_port, wait_for_port
from potluck.flower.superlink import SuperLink

HERE = Path(__file__).parent
ROOT = HERE.parent
OUT = HERE / "results" / "flower_rounds.json"
POTLUCK = str(Path(sys.executable).with_name("potluck"))
LIMIT = 3600.0

EMPTY_GOAL = 1.25
"""How many times the minimal app's time a round may take in which nothing is computed."""
BUSY_GOAL = 1.1
"""How many times its computing a round may take, beside what the minimal app takes."""


@dataclass(frozen=True)
class Workload:
    """Rounds of one kind.

    Args:
        name: what figures call it.
        participants: how many there are.
        rounds: how many count, after the first.
        seconds: how long each participant computes in a round; by default not at all.
        megabytes: how much each sends and receives in a round; by default nothing.
    """

    name: str
    participants: int
    rounds: int
    seconds: float = 0.0
    megabytes: int = 0

    @property
    def method(self) -> str:
        """As a server's file names it."""
        if self.megabytes:
            return f'{{ name = "benchmarks.flower_methods:Ship", megabytes = {self.megabytes} }}'
        return f'{{ name = "benchmarks.flower_methods:Busy", seconds = {self.seconds} }}'

    def figures(self, floor: list[float], ours: list[float]) -> list[Figure]:
        """From the seconds of each round of the minimal app and of Potluck."""
        allowed = BUSY_GOAL * self.seconds + median(floor) if self.seconds else None
        found = [
            Figure.of(f"{self.name}: Flower's minimal app", floor, "s"),
            Figure.of(f"{self.name}: Potluck", ours, "s", goal=allowed),
        ]
        if not self.seconds and not self.megabytes:
            over = median(ours) / median(floor)
            found.append(Figure.of(f"{self.name}: Potluck over Flower", [over], "×", goal=EMPTY_GOAL))
        return found


WORKLOADS = (
    Workload("empty, 10 participants", 10, 6),
    Workload("one minute, 2 participants", 2, 3, seconds=60.0),
    Workload("200 MB each way, 2 participants", 2, 3, megabytes=200),
)

MINIMAL = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "minimal"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "potluck"
[tool.flwr.app.components]
serverapp = "minimal.server:app"
clientapp = "minimal.client:app"
[tool.flwr.app.config]
rounds = 1
nodes = 1
times = ""
""",
    "minimal/__init__.py": "",
    "minimal/client.py": """
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def query(message, context):
    return Message(RecordDict(), reply_to=message)
""",
    "minimal/server.py": """
import json
import time
from itertools import pairwise
from pathlib import Path

from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    while len(nodes := list(grid.get_node_ids())) < config["nodes"]:
        time.sleep(0.5)
    times = []
    for _ in range(config["rounds"]):
        began = time.monotonic()
        answers = list(grid.send_and_receive([Message(RecordDict(), node, "query") for node in nodes]))
        assert len(answers) == len(nodes) and not any(answer.has_error() for answer in answers)
        times.append(time.monotonic() - began)
    path = Path(config["times"])
    path.with_suffix(".draft").write_text(json.dumps(times))
    path.with_suffix(".draft").rename(path)
""",
}


def flower_alone(folder: Path, participants: int, rounds: int) -> list[float]:
    """Seconds of each round of the minimal app."""
    for name, text in MINIMAL.items():
        path = folder / "app" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    home, port, times = folder / "home", free_port(), folder / "times.json"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    settings = environment(home)
    del settings["FLWR_SUPEREXEC_TASK_POLL_INTERVAL"]  # as Flower comes
    link = ["flower-superlink", "--insecure", "--port", str(port), "--disable-runtime-dependency-installation"]
    programs = [Program(link, settings, folder / "superlink.log")]
    try:
        wait_for_port(port, programs[0])
        for number in range(participants):
            own = {**settings, "FLWR_HOME": str(folder / f"node{number}")}
            node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(free_port())]
            programs.append(Program(node, own, folder / f"node{number}.log"))
        config = f"rounds={rounds} nodes={participants} times={json.dumps(str(times))}"
        flwr(settings, "run", str(folder / "app"), "here", "--run-config", config)
        until = time.monotonic() + LIMIT
        while not times.exists():
            if time.monotonic() > until or programs[0].ended is not None:
                raise SystemExit(programs[0].tail(50))
            time.sleep(0.1)
    finally:
        for program in reversed(programs):
            program.stop()
    found: list[float] = json.loads(times.read_text())
    return found


def potluck_rounds(folder: Path, participants: int, rounds: int, method: str) -> list[float]:
    """Seconds of each round of a federation."""
    folder.mkdir()
    names = [f"p{number}" for number in range(participants)]
    participants_toml = "\n".join(f'[[participants]]\nname = "{name}"' for name in names)
    port = free_port()
    (folder / "server.toml").write_text(f"rounds = {rounds}\nport = {port}\nmethod = {method}\n{participants_toml}\n")
    for name in names:
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nmodel = "mlp"\ndata = "benchmarks.flower_rounds:few_samples"\n'
            f'state_dir = "state-{name}"\n'
            'device = "cpu"\n'
            'allow_imports = ["benchmarks.flower_methods:Busy", "benchmarks.flower_methods:Ship"]\n'
        )
    quiet: dict[str, Any] = {"cwd": ROOT, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "stdin": subprocess.DEVNULL}
    ended: list[float] = []

    def on_line(line: str) -> None:
        if re.match(r"[\d: -]+(playing|round) ", line):
            ended.append(time.monotonic())

    processes = []
    try:
        with SuperLink(folder / "server.toml", read_federation(folder / "server.toml"), folder / "run", False) as link:
            for name in names:
                with (folder / f"{name}.log").open("wb") as log:
                    command = [POTLUCK, "join", str(folder / f"{name}.toml"), "--server", f"127.0.0.1:{port}", "--yes"]
                    processes.append(subprocess.Popen(command, stdout=log, stderr=log, **quiet))
            failed = link.follow(on_line)
            if failed:
                raise SystemExit(failed)
        for process in processes:
            process.wait(120)
    finally:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                process.wait(60)
    return [after - before for before, after in pairwise(ended)]


def few_samples() -> Any:
    """Data that nobody trains on."""
    import numpy as np

    return np.zeros((4, 2), dtype="float32"), np.array([0, 1, 0, 1])


def measure(workload: Workload) -> list[Figure]:
    """One kind of rounds, Flower's minimal app first."""
    say(f"{workload.name} …")
    with tempfile.TemporaryDirectory(prefix="potluck-benchmark-") as folder:
        floor = flower_alone(Path(folder), workload.participants, workload.rounds + 1)[1:]
        ours = potluck_rounds(Path(folder) / "potluck", workload.participants, workload.rounds + 1, workload.method)[1:]
    return workload.figures(floor, ours)


def main(
    only: Annotated[list[str] | None, typer.Option(help="empty, one or 200: how a kind's name begins.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds that count, instead of each kind's own.")] = None,
    out: Annotated[Path, typer.Option("--json", help="Where the results go.")] = OUT,
) -> None:
    """Measure rounds over Flower, and print and write the figures."""
    results = Results("flower_rounds", [])
    for workload in WORKLOADS:
        if only is None or workload.name.startswith(tuple(only)):
            results.figures.extend(measure(workload if rounds is None else replace(workload, rounds=rounds)))
    finish(results, out)


if __name__ == "__main__":
    run_script(main)
