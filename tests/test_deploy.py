"""The units are what systemd accepts, and hold with the container file what they need; `make lint` reads the latter."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNITS = sorted((ROOT / "deploy").glob("*.service"))


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_hold_what_they_need(path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    assert set(unit.sections()) == {"Unit", "Service", "Install"}
    command = unit["Service"]["ExecStart"].split()
    assert command[0].startswith("/")
    assert command[1] in ("serve", "join")
    assert unit["Service"]["KillSignal"] == "SIGINT"
    assert unit["Service"]["User"] == "potluck"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_the_units(path, tmp_path):
    text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", path.read_text())
    (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / path.name)], capture_output=True, text=True, timeout=60
    )
    assert path.name not in done.stderr, done.stderr


def test_the_container_file_finds_what_it_copies_and_takes_torch_first():
    text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    sources = [source for step, rest in steps if step == "COPY" for source in rest.split()[:-1]]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    install = next(rest for step, rest in steps if step == "RUN" and "pip" in rest)
    assert install.index(" torch") < install.index("[flower]")
