"""A process that plays cells: what it is told and tells, and what is told when it ends."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.comparison import worker
from potluck.comparison.cells import plan_cells
from potluck.comparison.worker import Worker
from tests.recipes.files import write


class Program:
    """Stands for a process that has said all it will say."""

    def __init__(self, said: str, code: int | None = None) -> None:
        self.stdin, self.stdout, self.code = io.StringIO(), io.StringIO(said), code

    def poll(self):
        return self.code

    def wait(self):
        return self.code

    def kill(self):
        pass


@pytest.fixture
def one(here):
    return plan_cells(write(here), ["CoFED"], [0], Path("out"))[0]


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        ('{"round": 1}\n{"round": 2}\n{"failed": null}\n', None, None),
        ('{"round": 1}\n{"failed": "no data"}\n', None, "no data"),
        ('{"round": 1}\n', -9, "its process was ended by signal 9, as when memory runs out"),
        ("", 3, "its process was ended with exit code 3"),
    ],
)
def test_what_becomes_of_a_cell(one, monkeypatch, said, code, reason):
    program, told = Program(said, code), []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: program)
    player = Worker(2)
    assert player.play(one, told.append) == reason
    assert told == [json.loads(line)["round"] for line in said.splitlines() if "round" in line]
    assert json.loads(program.stdin.getvalue()) == json.loads(json.dumps(one.to_json()))
    assert player.alive == (code is None)
    player.stop()


def test_the_life_of_a_worker(one, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(one.to_json()) + "\n"))
    monkeypatch.setattr(worker, "ending_with_parent", lambda by: lambda: None)
    monkeypatch.setattr(worker.signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker.os, "dup2", lambda *_: None)
    worker.work(1)
    assert [json.loads(line) for line in capfd.readouterr().out.splitlines()][-1] == {"failed": None}
    assert (one.folder / "measured.json").exists()
