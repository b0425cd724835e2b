"""The most memory a process and its children have held."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import memory


def test_memory_counts_what_was_held_here_and_in_children():
    """In a fresh process, since a peak never falls."""
    code = f"""
import runpy, subprocess, sys
peak = runpy.run_path({memory.__file__!r})["peak_memory"]
before = peak()
held = bytearray(2**26)
mine = peak()
del held
child = subprocess.Popen([sys.executable, "-c", "held = bytearray(2**26); print(1, flush=True); input()"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
both = peak()
child.communicate(b"1")
print(mine - before, both - mine)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here, child = (int(grown) / 2**26 for grown in told.split())
    assert here == pytest.approx(1, abs=0.1)
    assert child == pytest.approx(1, abs=0.5)  # and an interpreter
