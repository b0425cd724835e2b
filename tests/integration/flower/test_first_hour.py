"""``docs/first-hour.md`` works as it stands, followed word for word: its table, its commands, what they say."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "first-hour.md").read_text()
LIMIT = 600.0
"""Seconds that a command may take: on a machine with other work each takes a while."""
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "COLUMNS": "1000",
    "TERM": "dumb",
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}


def commands():
    """The page's commands in order: the terminal, the command, the lines that are to be seen."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S):
        for line in block.splitlines():
            if prompt := re.match(r"(\w+)\$ (.*)", line):
                found.append((prompt[1], prompt[2], []))
            else:
                found[-1][2].append(line)
    return found


class Program:
    """A command at a terminal, which agrees to what it is asked.

    Args:
        folder: where it runs.
        command: as the page has it.
        expected: the lines that are to be seen; "…" stands for anything.
    """

    def __init__(self, folder, command, expected):
        self.command, self.expected, self.said = command, expected, ""
        own, its = pty.openpty()
        streams = {"stdin": its, "stdout": its, "stderr": its}
        self._process = subprocess.Popen(
            ["bash", "-c", command], cwd=folder, env=ENVIRONMENT, start_new_session=True, **streams
        )
        os.close(its)
        self._reader = threading.Thread(target=self._read, args=(own,), daemon=True)
        self._reader.start()

    def _read(self, own):
        asked = 0
        while True:
            try:
                piece = os.read(own, 4096)
            except OSError:  # the other end is closed
                piece = b""
            if not piece:
                os.close(own)
                return
            self.said += re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", piece.decode(errors="replace")).replace("\r", "")
            if self.said.count("[y/N]:") > asked:
                asked += 1
                os.write(own, b"y\n")

    def sees(self, line):
        """Whether it has said so; how a terminal breaks lines and leaves gaps is its own affair."""
        parts = [re.escape(re.sub(r"\s", "", part)) for part in line.split("…")]
        return re.search(".*?".join(parts), re.sub(r"\s", "", self.said)) is not None

    def wait_for(self, line):
        """Until it says so, or ends."""
        until = time.monotonic() + LIMIT
        while not self.sees(line) and self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)

    def end(self):
        """When it has ended, it must have said what the page shows."""
        self._process.wait(LIMIT)
        self._reader.join(30)
        missing = [line for line in self.expected if not self.sees(line)]
        assert not missing, f"$ {self.command}\n{self.said}"
        wrong = any(line.startswith(("Error", "✗")) for line in self.expected)
        assert (self._process.returncode != 0) == wrong, f"$ {self.command}\n{self.said}"

    def kill(self):
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)


def goes_on(command):
    """Whether a command goes on while others are typed in other terminals."""
    return command.startswith(("potluck serve", "potluck join")) and not command.endswith("--check")


def test_the_page_makes_each_mistake_and_both_files():
    typed = "\n".join(command for _, command, _ in commands())
    for what in ("new --server", "new --site", "--check", "https://", "run server.toml", "keys/other", "export"):
        assert what in typed, what
    assert {place for place, _, _ in commands()} == {"server", "hospital", "clinic"}
    said = "\n".join(line for _, _, lines in commands() for line in lines)
    for mistake in (
        "`potluck serve",
        "Nobody listens at port",
        "your file says",
        "speaks TLS",
        "not signed",
        "not know",
    ):
        assert mistake in said


@pytest.mark.slow
def test_from_nothing_to_two_models_at_home(tmp_path, monkeypatch):
    """Each terminal is busy until its command has ended, and types the next one then."""
    for port in (8443, 9443):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"the page's port {port} is in use on this machine")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(code, {})
    busy: dict[str, Program] = {}
    try:
        for place, command, expected in commands():
            if place in busy:
                busy.pop(place).end()
            busy[place] = program = Program(tmp_path / place, command, expected)
            if goes_on(command):
                program.wait_for(expected[0])
            else:
                busy.pop(place).end()
        for program in busy.values():
            program.end()
    finally:
        for program in busy.values():
            program.kill()
    for place in ("hospital", "clinic"):
        assert (tmp_path / place / "model" / "README.md").exists()
        header = (tmp_path / place / "test-predicted.csv").read_text().splitlines()[0]
        assert header.endswith(",prediction")
    assert (tmp_path / "server/runs/server-0/report.html").exists()
