"""Kills any process of a run at random moments, kill -9, and has it go on: ``make chaos``.

    python -m tools.chaos --local 160 --flower 40 --minutes 120

Runs on local engines are killed and resumed until so many kills are done; over Flower, programs of real federations are
killed, the server's or a participant's, and started again. Each run must end with the history of an unbroken one, and
of real federations nothing may be left running.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.flower.programs import THINGS, Site
from tests.resumable import METHODS, resumable
from tests.tables import agree

ROOT = Path(__file__).parents[1]
ENGINES = ("serial", "batched")
KILLS = 8
"""How often one run is killed at most."""
LOCAL_ROUNDS, FLOWER_ROUNDS = 40, 4
PATIENCE = 120.0
"""Seconds in which a program must come to its end, or to its next checkpoint."""

CHILD = """
import sys
from tests.resumable import METHODS, resumable
method = next(m for m in METHODS if type(m).__name__ == sys.argv[1])
resumable(method, sys.argv[2]).run(int(sys.argv[4]), run_dir=sys.argv[3], resume=True)
"""


def local(name: str, engine: str, folder: Path, draw: random.Random, most: int, rounds: int = LOCAL_ROUNDS) -> int:
    """Kills one run on a local engine and resumes it, again and again; how often it was killed.

    Args:
        name: the method's.
        engine: the engine.
        folder: the run folder.
        draw: when it is killed.
        most: how often it is killed at most.
        rounds: how many rounds it has.
    """
    command, killed = [sys.executable, "-c", CHILD, name, engine, str(folder), str(rounds)], 0
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    while True:
        before = _progress(folder)
        child = subprocess.Popen(command, env=environment, cwd=ROOT)
        try:
            if killed < most:
                _until(lambda at=before, child=child: _progress(folder) != at or child.poll() is not None)  # type: ignore[misc]
                time.sleep(draw.uniform(0, 0.3))
                if child.poll() is None:
                    child.kill()
                    killed += 1
            code = child.wait(PATIENCE)
        finally:
            child.kill()
        if code == 0:
            break
        assert code == -9, f"{name} on {engine} ended with {code} after {killed} kills; see {folder}"
    method = next(each for each in METHODS if type(each).__name__ == name)
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    agree(resumable(method, engine).run(rounds).rows(), lines, 1e-9)
    return killed


def over_flower(folder: Path, draw: random.Random, most: int, rounds: int = FLOWER_ROUNDS) -> int:
    """Kills programs of one real federation, and starts them again; how often one was killed.

    Args:
        folder: where all is.
        draw: who is killed, and when.
        most: how often somebody is killed at most.
        rounds: how many rounds it has.
    """
    model = f'"{THINGS}:cnn"'
    site = Site(folder, '"FedAvg"', {"p0": model, "p1": model}, rounds=rounds, min_participants=2, answer_timeout=600)
    killed = 0
    with site:
        site.serve()
        site.until(lambda: "waiting for" in site.said("serve"), "the server to listen")
        site.join("p0", "p1")
        site.until(lambda: "round 1 of" in site.said("serve"), "round 1 to end")
        for _ in range(most):
            time.sleep(draw.uniform(0, 3))
            who = draw.choice(("serve", "p0", "p1"))
            if any(process.poll() is not None for process in site.running.values()):
                break
            site.kill(who)
            killed += 1
            if who == "serve":
                site.serve("--resume")
            else:
                site.join(who)
            lines = site.said("serve").count("\n")
            site.until(lambda lines=lines: site.said("serve").count("\n") > lines or _over(site), "the run to go on")  # type: ignore[misc]
        site.wait("serve", "p0", "p1")
    agree(site.rows(), site.serial(), 1e-12)
    return killed


def _over(site: Site) -> bool:
    return all(process.poll() is not None for process in site.running.values())


def _progress(folder: Path) -> str:
    return max((path.name for path in (folder / "checkpoints").glob("round-*")), default="")


def _until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < limit, "a run came to no checkpoint"
        time.sleep(0.01)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--local", type=int, default=160, help="how many kills on local engines")
    parser.add_argument("--flower", type=int, default=40, help="how many kills of programs over Flower")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    draw, until = random.Random(given.seed), time.monotonic() + 60 * given.minutes
    done, runs = {"local": 0, "flower": 0}, {"local": 0, "flower": 0}
    names = [type(method).__name__ for method in METHODS]
    for kind, wanted in (("local", given.local), ("flower", given.flower)):
        while done[kind] < wanted and time.monotonic() < until:
            with tempfile.TemporaryDirectory(prefix="chaos-") as place:
                folder, most = Path(place), min(KILLS if kind == "local" else KILLS // 2, wanted - done[kind])
                if kind == "local":
                    name, engine = names[runs[kind] % len(names)], ENGINES[runs[kind] // len(names) % len(ENGINES)]
                    done[kind] += local(name, engine, folder, draw, most)
                else:
                    done[kind] += over_flower(folder, draw, most)
            runs[kind] += 1
            print(f"{kind}: {done[kind]} of {wanted} kills, {runs[kind]} runs, each as unbroken", flush=True)
    sys.exit(done != {"local": given.local, "flower": given.flower})


if __name__ == "__main__":
    main()
