"""Runs the whole life of a federation on this machine: a server and three organisations, each in a process of its own.

    python examples/three_organisations/run.py

Makes certificates and keys and starts everyone on loopback. The insurer declines at first, since its policy lets no
predictions leave, and comes back when its owner has thought about it. The laboratory is killed in the middle of a
round, and goes on. At the end each has its model exported, and what each reaches alone and together is shown. `make
federation` does this from a fresh clone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
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
DECLINED = 3
"""The exit code of `potluck join` where its owner, or the policy, does not agree."""


def main() -> int:
    """Exits with 0 if all went well."""
    began = time.monotonic()
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
    print(f"\nOnly votes on public images travelled. Everything is stopped, after {time.monotonic() - began:.0f} s.")
    return 0


def alone_accuracies(site: Path) -> dict[str, float]:
    """What each reaches without the others: the same files, the method Local, in this process."""
    people = [read_participant(site / f"{name}.toml").build() for name in NAMES]
    rows = potluck.Federation(people, potluck.methods.Local(), seed=0, device="cpu").run(1).rows()
    return {row["participant"]: row["accuracy"] for row in rows}


def federate(site: Path) -> list[dict[str, Any]]:
    """The real thing: four programs that know each other by address, certificate and key. Returns the last rows."""
    port = free_port()
    careful = (site / "insurer.toml").read_text() + '\n[policy]\nleaves = ["statistics"]\n'
    (site / "careful.toml").write_text(careful)

    started: list[Program] = []

    def start(who: str, *arguments: str) -> Program:
        started.append(Program(site, who, *arguments))
        return started[-1]

    def join(name: str, file: str) -> Program:
        return start(name, "join", file, "--server", f"127.0.0.1:{port}", "--yes")

    try:
        server = start("server", "serve", "server.toml", "--out", "run", "--port", str(port))
        hospital, laboratory = join("hospital", "hospital.toml"), join("laboratory", "laboratory.toml")
        join("insurer", "careful.toml").end(DECLINED)
        say("The insurer has declined: its policy lets no predictions leave.")
        laboratory.wait_for("round 1: the server asks")
        laboratory.kill()
        say("The laboratory was killed in the middle of its round.")
        insurer = join("insurer", "insurer.toml")
        server.wait_for("insurer is here")
        say("The insurer has changed its policy and come back; the laboratory is started again.")
        for program in (join("laboratory", "laboratory.toml"), hospital, insurer, server):
            program.end()
        for program in [start(name, "export", f"state/{name}", "--out", f"model-{name}") for name in NAMES]:
            program.end()
    finally:
        for program in started:
            program.stop()
    rows = [json.loads(line) for line in (site / "run" / "history.jsonl").read_text().splitlines()]
    return [row for row in rows if row["round"] == rows[-1]["round"]]


def say(text: str) -> None:
    """What happens, between the lines of the programs."""
    print(f"{'':10} * {text}", flush=True)


class Program:
    """A command of Potluck's, which is shown as it speaks.

    Args:
        site: where it runs.
        who: whose it is.
        arguments: the command and its arguments.
    """

    def __init__(self, site: Path, who: str, *arguments: str) -> None:
        self._who, self._said = who, ""
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._process = subprocess.Popen(
            [POTLUCK, *arguments], cwd=site, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, **streams
        )
        self._reader = threading.Thread(target=self._show, daemon=True)
        self._reader.start()

    def _show(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said += line
            print(f"{self._who:10} | {line.rstrip()}", flush=True)

    def wait_for(self, text: str) -> None:
        """Until it says so."""
        until = time.monotonic() + TIMEOUT
        while text not in self._said:
            if self._process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{self._who} never said {text!r}; see above.")
            time.sleep(0.05)

    def end(self, code: int = 0) -> None:
        """Waits until it has ended, in this way."""
        if self._process.wait(TIMEOUT) != code:
            raise SystemExit("The federation failed; see above.")
        self._reader.join(10)

    def kill(self) -> None:
        """As a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> None:
        """In order, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


if __name__ == "__main__":
    raise SystemExit(main())
