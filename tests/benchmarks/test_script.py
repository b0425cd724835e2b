"""What the scripts have in common: errors in one line, a table and a file at the end."""

from __future__ import annotations

import sys

import pytest

from benchmarks import cpu_round, overhead
from benchmarks.script import run_script
from potluck.bench.results import Results


def test_a_script_reports_errors_in_one_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cpu_round.py", "--only", "CMM"])
    with pytest.raises(SystemExit) as ended:
        run_script(cpu_round.main)
    assert ended.value.code == "Error: There is no federation 'CMM'; expected MLP or CNN."


def test_a_script_prints_and_writes(monkeypatch, tmp_path, capsys):
    file = tmp_path / "overhead.json"
    monkeypatch.setattr(sys, "argv", ["overhead.py", "--participants", "2", "--repeats", "1", "--json", str(file)])
    with pytest.raises(SystemExit) as ended:
        run_script(overhead.main)
    assert ended.value.code in (0, None)
    assert Results.read(file).settings["participants"] == 2
    assert "nothing, serial, one step" in capsys.readouterr().out
