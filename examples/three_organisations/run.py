"""Runs the whole federation on this machine: the server and three organisations, each in a process of its own.

    python examples/three_organisations/run.py

Makes certificates and keys, starts everyone on loopback, prints what each reaches alone and together, and stops
everything. `make federation` does this from a fresh clone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import potluck
from potluck.flower.config import read_participant
from potluck.flower.processes import free_port

HERE = Path(__file__).parent
POTLUCK = str(Path(sys.executable).with_name("potluck"))
NAMES = ("hospital", "laboratory", "insurer")
MODELS = {"hospital": "CNN", "laboratory": "ResNet", "insurer": "gradient-boosted trees"}
TIMEOUT = 600.0


def main() -> int:
    """Exits with 0 if all went well."""
    with tempfile.TemporaryDirectory(prefix="potluck-federation-") as folder:
        site = Path(folder)
        for path in [*HERE.glob("*.toml"), *HERE.glob("organisations.py")]:
            shutil.copy(path, site)
        subprocess.run([POTLUCK, "keys", "init", *NAMES], cwd=site, check=True, stdout=subprocess.DEVNULL)
        print("Keys and certificates are made. First everyone trains alone, then all together.", flush=True)
        alone = alone_accuracies(site)
        together = federate(site)
        print(f"\n{'organisation':14}{'model':26}{'alone':>8}{'together':>10}{'sent':>10}{'received':>10}")
        for row in together:
            name = row["participant"]
            shares = f"{100 * alone[name]:>7.1f}%{100 * row['accuracy']:>9.1f}%"
            print(f"{name:14}{MODELS[name]:26}{shares}{row['bytes_up']:>8} B{row['bytes_down']:>8} B")
    print("\nOnly votes on public images travelled. Everything is stopped.")
    return 0


def alone_accuracies(site: Path) -> dict[str, float]:
    """What each reaches without the others: the same files, the method Local, in this process."""
    people = [read_participant(site / f"{name}.toml").build() for name in NAMES]
    rows = potluck.Federation(people, potluck.methods.Local(), seed=0, device="cpu").run(1).rows()
    return {row["participant"]: row["accuracy"] for row in rows}


def federate(site: Path) -> list[dict[str, Any]]:
    """The real thing: four programs that know each other by address, certificate and key."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    port = free_port()

    def start(who: str, *arguments: str) -> subprocess.Popen[str]:
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        program = subprocess.Popen([POTLUCK, *arguments], cwd=site, env=environment, text=True, **streams)
        threading.Thread(target=show, args=(who, program), daemon=True).start()
        return program

    programs = [start("server", "serve", "server.toml", "--out", "run", "--port", str(port))]
    try:
        programs += [start(name, "join", f"{name}.toml", "--server", f"127.0.0.1:{port}", "--yes") for name in NAMES]
        until = time.monotonic() + TIMEOUT
        while any(program.poll() is None for program in programs):
            failed = [program for program in programs if program.poll() not in (None, 0)]
            if failed or time.monotonic() > until:
                raise SystemExit("The federation failed; see above.")
            time.sleep(0.2)
    finally:
        for program in programs:
            if program.poll() is None:
                program.terminate()
                program.wait(60)
    return [json.loads(line) for line in (site / "run" / "history.jsonl").read_text().splitlines()]


def show(who: str, program: subprocess.Popen[str]) -> None:
    """Prints what a program says, with its name in front."""
    assert program.stdout is not None
    for line in program.stdout:
        print(f"{who:10} | {line.rstrip()}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
