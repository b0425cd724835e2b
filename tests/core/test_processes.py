from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from potluck.core import processes
from potluck.core.errors import SettingsError

PARENT = """
import signal, subprocess, sys, time
from potluck.core.processes import ending_with_parent
child = subprocess.Popen(["sleep", "60"], preexec_fn=ending_with_parent(signal.SIGTERM))
print(child.pid, flush=True)
time.sleep(60)
"""


def runs(process):
    """Whether a process is there and does anything; nobody may have asked yet how it ended."""
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can")
def test_a_process_ends_when_its_parent_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        child = int(parent.stdout.readline())
        assert runs(child)
        parent.kill()
        parent.wait(10)
        until = time.monotonic() + 10
        while runs(child) and time.monotonic() < until:
            time.sleep(0.02)
        ended = not runs(child)
        if not ended:
            os.kill(child, signal.SIGKILL)
        assert ended
    finally:
        parent.kill()
        parent.wait(10)


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(processes.sys, "platform", "darwin")
    monkeypatch.setattr(processes.ctypes, "CDLL", None)
    assert processes.ending_with_parent(signal.SIGTERM)() is None


def test_what_one_holds_nobody_else_gets(tmp_path):
    lock = processes.held_alone(tmp_path / ".lock", "somebody has it")
    with pytest.raises(SettingsError, match="somebody has it"):
        processes.held_alone(tmp_path / ".lock", "somebody has it")
    lock.release()
    processes.held_alone(tmp_path / ".lock", "somebody has it").release()


def test_a_process_is_told_from_a_later_one_of_its_number(monkeypatch):
    own = processes.started_at(os.getpid())
    assert own is not None
    assert own == processes.started_at(os.getpid())
    assert own != processes.started_at(1)
    assert processes.started_at(2**22 + 1) is None


def test_whether_somebody_holds_a_lock_can_be_seen_without_taking_it(tmp_path):
    assert not processes.is_held(tmp_path / ".lock")
    assert list(tmp_path.iterdir()) == []
    lock = processes.held_alone(tmp_path / ".lock", "somebody has it")
    assert processes.is_held(tmp_path / ".lock")
    lock.release()
    assert not processes.is_held(tmp_path / ".lock")
