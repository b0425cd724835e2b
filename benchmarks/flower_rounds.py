"""What a round over Flower costs, against a minimal app of Flower's own, measured in the same run.

    python -m benchmarks.flower_rounds --participants 10 --rounds 5                  # empty rounds
    python -m benchmarks.flower_rounds --participants 2 --rounds 3 --seconds 60      # rounds that compute
    python -m benchmarks.flower_rounds --participants 2 --rounds 2 --megabytes 200   # large payloads, each way

Everything runs on this machine, on loopback, without TLS. Flower's minimal app answers each message with an empty one;
its server uses Flower's own `send_and_receive`. The first round of each is left out: it installs the app on the nodes.
Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from potluck.engines.flower.files import read_federation
from potluck.engines.flower.link import Link
from potluck.engines.flower.processes import Program, environment, flwr, free_port, wait_for_port

ROOT = Path(__file__).parents[1]
POTLUCK = str(Path(sys.executable).with_name("potluck"))
LIMIT = 3600.0

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
    seats = "\n".join(f'[[participants]]\nname = "{name}"' for name in names)
    port = free_port()
    (folder / "federation.toml").write_text(f"rounds = {rounds}\nport = {port}\nmethod = {method}\n{seats}\n")
    for name in names:
        (folder / f"{name}.toml").write_text(
            f'name = "{name}"\nmodel = "mlp"\ndata = "benchmarks.flower_rounds:few"\nstate = "state-{name}"\n'
            f'device = "cpu"\nallow = ["benchmarks.flower_methods:Busy", "benchmarks.flower_methods:Ship"]\n'
        )
    quiet: dict[str, Any] = {"cwd": ROOT, "env": os.environ | {"OMP_NUM_THREADS": "1"}, "stdin": subprocess.DEVNULL}
    ended: list[float] = []

    def told(line: str) -> None:
        if line.startswith(("playing", "round")):
            ended.append(time.monotonic())

    people = []
    try:
        with Link(
            folder / "federation.toml", read_federation(folder / "federation.toml"), folder / "run", False
        ) as link:
            for name in names:
                with (folder / f"{name}.log").open("wb") as log:
                    command = [POTLUCK, "join", str(folder / f"{name}.toml"), "--server", f"127.0.0.1:{port}", "--yes"]
                    people.append(subprocess.Popen(command, stdout=log, stderr=log, **quiet))
            failed = link.follow(told)
            if failed:
                raise SystemExit(failed)
        for person in people:
            person.wait(120)
    finally:
        for person in people:
            if person.poll() is None:
                person.terminate()
                person.wait(60)
    return [after - before for before, after in pairwise(ended)]


def few() -> Any:
    """Data that nobody trains on."""
    import numpy as np

    return np.zeros((4, 2), dtype="float32"), np.array([0, 1, 0, 1])


def main() -> None:
    """Prints what was measured."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--participants", type=int, default=10)
    options.add_argument("--rounds", type=int, default=5, help="after the first, which is left out")
    options.add_argument("--seconds", type=float, default=0.0, help="how long each participant computes in a round")
    options.add_argument("--megabytes", type=int, default=0, help="how much each participant sends and receives")
    given = options.parse_args()
    method = f'{{ name = "benchmarks.flower_methods:Busy", seconds = {given.seconds} }}'
    if given.megabytes:
        method = f'{{ name = "benchmarks.flower_methods:Ship", megabytes = {given.megabytes} }}'
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="potluck-benchmark-") as folder:
        floor = flower_alone(Path(folder), given.participants, given.rounds + 1)[1:]
        ours = potluck_rounds(Path(folder) / "potluck", given.participants, given.rounds + 1, method)[1:]
    ratio = statistics.median(ours) / statistics.median(floor)
    found = {**vars(given), "flower": floor, "potluck": ours, "ratio of medians": ratio}
    if given.seconds:
        found["allowed"] = 1.1 * given.seconds + statistics.median(floor)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
