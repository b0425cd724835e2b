"""``python -m potluck`` is the command."""

from __future__ import annotations

import subprocess
import sys

import potluck


def test_python_runs_the_package():
    done = subprocess.run([sys.executable, "-m", "potluck", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"potluck {potluck.__version__}\n"
