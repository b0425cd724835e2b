"""Runs the command line: in this process, or for real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from potluck.cli import app

COMMAND = Path(sys.executable).with_name("potluck")
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"}

heed_interrupts = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""For a process that was just started: as from a terminal, Ctrl-C reaches it even where tests ignore it."""


def potluck(*arguments: Any, fails: int = 0) -> Any:
    """Runs a command and checks its exit code."""
    given = [str(argument) for argument in arguments]
    result = CliRunner().invoke(app, given, env={"COLUMNS": "80"}, prog_name="potluck")
    assert result.exit_code == fails, (result.output, result.exception)
    return result


def start(*arguments: Any, **settings: Any) -> subprocess.Popen[str]:
    """Starts a command in a process of its own, as from a terminal."""
    command = [str(COMMAND), *map(str, arguments)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=ENVIRONMENT, preexec_fn=heed_interrupts, **{**streams, **settings})
