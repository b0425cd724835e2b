"""Real federations for tests: `potluck serve` and `potluck join` in processes of their own, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import potluck
from potluck.core.history import History, Row
from potluck.flower.config import read_federation, read_participant
from potluck.flower.processes import free_port
from tests.cli.commands import COMMAND, heed_interrupts

ROOT = Path(__file__).parents[2]
THINGS = "tests.flower.things"
PLAN = '{ optimizer = "sgd", lr = 0.05, momentum = 0.9, epochs = 2, batch_size = 8 }'
LONG = 240.0
"""Seconds after which a test gives up, whatever happens."""


class Site:
    """A folder with the files of one federation, and its programs. Leaving it stops all of them."""

    def __init__(self, folder: Path, method: str, models: Mapping[str, str], **settings: Any) -> None:
        self.folder, self.port = folder, free_port()
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        public = settings.pop("public", "")
        own_public = settings.pop("own_public", public)
        extra = settings.pop("extra", "")
        per_participant = settings.pop("entries", {})
        self.own = settings.pop("own", "")
        lines = [f"method = {method}", f"port = {self.port}"]
        lines += [f"{name} = {value}" for name, value in {"rounds": 2, "seed": 3, **settings}.items()]
        lines += [f"public = {public}"] if public else []
        lines += [extra]
        lines += [f'[[participants]]\nname = "{name}"\n{per_participant.get(name, "")}' for name in models]
        (folder / "server.toml").write_text("\n".join(lines))
        for number, (name, model) in enumerate(models.items()):
            self.write(name, model, number, own_public)

    def write(self, name: str, model: str, number: int, public: str = "") -> None:
        """A participant's own file."""
        lines = [
            f'name = "{name}"',
            f"model = {model}",
            f'data = {{ name = "{THINGS}:data", seed = {number}, rows = {20 + 7 * number} }}',
            f'test = "{THINGS}:test"',
            "labels = [0, 1, 2]",
            f'state_dir = "state-{name}"',
            'device = "cpu"',
            f"plan = {PLAN}",
            f"public = {public}" if public else "",
            self.own.replace("NAME", name),
        ]
        (self.folder / f"{name}.toml").write_text("\n".join(lines))

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.end(name)
        assert self.left() == []

    def serve(self, *options: str) -> None:
        self._start("serve", "serve", self.folder / "server.toml", "--out", self.folder / "run", *options)

    def join(self, *names: str, yes: bool = True, server: str = "", options: tuple[str, ...] = ()) -> None:
        for name in names:
            address = server or f"127.0.0.1:{self.port}"
            consent = ["--yes"] if yes else []
            self._start(name, "join", self.folder / f"{name}.toml", "--server", address, *consent, *options)

    def wait(self, *names: str, code: int = 0) -> None:
        """Until these have ended by themselves, as they should."""
        for name in names:
            found = self.running[name].wait(LONG)
            assert found == code, self.said(name)
            del self.running[name]

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.running.pop(name)
        process.kill()
        process.wait(LONG)

    def end(self, name: str) -> None:
        """Ctrl-C, and force if that does not help."""
        process = self.running.pop(name)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(LONG)

    def until(self, true: Callable[[], Any], what: str) -> None:
        """Waits for something to happen."""
        limit = time.monotonic() + LONG
        while not true():
            ended = [name for name, process in self.running.items() if process.poll() not in (None, 0)]
            assert not ended, f"{ended[0]} has ended while waiting for {what}:\n{self.said(ended[0])}"
            assert time.monotonic() < limit, f"waited for {what}\n{self.said('serve')}"
            time.sleep(0.1)

    def said(self, name: str) -> str:
        """All that a program has said."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def rows(self) -> list[Row]:
        return History.load(self.folder / "run").rows()

    def serial(self) -> list[Row]:
        """What the serial engine makes of the same files."""
        file = read_federation(self.folder / "server.toml")
        people = [read_participant(self.folder / f"{name}.toml").build() for name in file.names]
        for participant, entry in zip(people, file.participants, strict=True):
            participant.weight = entry.weight
        federation = potluck.Federation(
            people,
            file.build_method(),
            public=file.public.load(file.seed) if file.public else None,
            seed=file.seed,
            engine="serial",
            device="cpu",
            participation=file.participation,
        )
        return federation.run(file.rounds).rows()

    def left(self) -> list[str]:
        """Programs of this federation that are still there: every one of them names its folder or port."""
        marks = (str(self.folder), f"127.0.0.1:{self.port}")
        found, until = [""], time.monotonic() + 20
        while found and time.monotonic() < until:
            found = [line for line in _command_lines() if any(mark in line for mark in marks)]
            time.sleep(0.2)
        return found

    def _start(self, name: str, *arguments: Any) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(COMMAND), *map(str, arguments)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=heed_interrupts,
            )


def _command_lines() -> list[str]:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if int(path.parent.name) != os.getpid():
            lines.append(b" ".join(words).decode(errors="replace"))
    return lines
