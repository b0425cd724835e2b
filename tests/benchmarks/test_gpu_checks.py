"""The checks for a GPU, as far as they run without one."""

from __future__ import annotations

import sys

import pytest
import torch

from benchmarks import gpu_checks
from benchmarks.script import run_script
from potluck.bench.results import Results
from potluck.bench.scenarios import SMALL_MLP
from potluck.core.errors import PotluckError


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about a machine without a GPU")
def test_without_a_gpu_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu_checks.py"])
    with pytest.raises(SystemExit) as ended:
        run_script(gpu_checks.main)
    assert ended.value.code == "Error: These checks need a GPU, and PyTorch finds none here."


def test_tests_are_counted(tmp_path):
    file = tmp_path / "test_three.py"
    file.write_text(
        "import pytest\n\n\ndef test_one(): pass\n\n\ndef test_two(): assert False\n\n\n"
        "@pytest.mark.skip\ndef test_three(): pass\n"
    )
    found = {figure.name: (figure.value, figure.met) for figure in gpu_checks.run_tests([str(file)])}
    assert found == {"tests passed": (1, True), "tests failed": (1, False), "tests skipped": (1, None)}


def test_rounds_and_steps_are_measured():
    small = SMALL_MLP.replace(count=2, samples=64)
    names = [figure.name for figure in gpu_checks.rounds(small, "cpu", 1)]
    assert names == ["small MLP 2: round", "small MLP 2: first round over a later one"]
    names = [figure.name for figure in gpu_checks.steps(small, "mlp", "cpu", 1)]
    assert "small MLP 2: steps over eager" in names
    assert names[-1] == "small MLP 2: Fit over steps"


def test_what_was_measured_is_written(monkeypatch, tmp_path):
    file = tmp_path / "found.json"
    monkeypatch.setattr(
        gpu_checks, "checks", lambda *_: [("…", lambda: gpu_checks.rounds(SMALL_MLP.replace(count=2), "cpu", 1))]
    )
    monkeypatch.setattr(sys, "argv", ["gpu_checks.py", "--device", "cpu", "--json", str(file)])
    with pytest.raises(SystemExit) as ended:
        run_script(gpu_checks.main)
    assert ended.value.code in (0, None)
    assert len(Results.read(file).figures) == 2


def test_errors_of_pytest_itself_are_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(PotluckError, match="wrote no report"):
        gpu_checks.run_tests([])
