"""Rounds on a CPU: libraries that are missing are named, all run the same federation and train alike."""

from __future__ import annotations

import json
import sys
import venv

import numpy as np
import pytest

from benchmarks import cpu_round
from potluck.bench.scenarios import MLP
from potluck.core.errors import PotluckError

SMALL = MLP.replace(count=3, samples=64)


def test_without_an_interpreter_peers_are_left_out(capsys):
    assert cpu_round.peer_libraries(None, 2) == []
    assert capsys.readouterr().out == "Without --peers-python the peers are left out: pfl-research, Flower.\n"


def test_missing_peers_are_named_one_by_one(tmp_path, capsys):
    venv.create(tmp_path, symlinks=True)  # which has nothing; this one may have Flower
    python = str(tmp_path / "bin" / "python")
    assert cpu_round.peer_libraries(python, 2) == []
    assert capsys.readouterr().out.splitlines() == [
        f"pfl-research is left out: {python} has no torch, pfl.",
        f"Flower is left out: {python} has no torch, flwr, ray.",
    ]
    cpu_round.peer_libraries("/no/such/python", 2)
    assert "/no/such/python cannot be used: [Errno 2] No such file or directory" in capsys.readouterr().out


def test_a_block_that_crashed_is_run_again(tmp_path, capsys):
    cpu_round.write_inputs(SMALL, tmp_path)
    crashes_once = tmp_path / "crashes_once.py"
    crashes_once.write_text(
        "import pathlib, subprocess, sys\n"
        "mark = pathlib.Path(__file__).with_suffix('.mark')\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    sys.exit(3)\n"
        "sys.exit(subprocess.call(sys.argv[1:]))\n"
    )
    serial = cpu_round.own_engines(1)[0]
    flaky = cpu_round.Contestant("flaky", [sys.executable, str(crashes_once), *serial.command])
    assert len(cpu_round.run_block(flaky, SMALL, tmp_path, 2).seconds) == 2
    assert "flaky ended with 3: this block is run again." in capsys.readouterr().out


def test_all_contestants_find_the_same_federation(tmp_path):
    cpu_round.write_inputs(SMALL, tmp_path)
    x, y = next(SMALL.datasets())
    assert (np.load(tmp_path / "x.npy")[0] == x).all()
    assert (np.load(tmp_path / "y.npy")[0] == y).all()
    assert json.loads((tmp_path / "federation.json").read_text())["batch_size"] == 32
    assert cpu_round.loss_of(SMALL, tmp_path, tmp_path / "start.npz") == pytest.approx(np.log(10), abs=0.3)


def test_ratios_come_from_blocks():
    blocks = {
        "serial": [cpu_round.Block([9.0, 4.0, 6.0], 0.5), cpu_round.Block([9.0, 8.0, 8.0], 0.5)],
        "auto": [cpu_round.Block([9.0, 2.0, 3.0], 0.5), cpu_round.Block([9.0, 2.0, 2.0], 0.5)],
    }
    found = {figure.name: figure for figure in cpu_round.figures(SMALL, blocks, before=2.3)}
    assert (found["MLP round, serial"].value, found["MLP round, serial"].first) == (7.0, 9.0)
    ratio = found["MLP round, auto over serial"]
    assert (ratio.low, ratio.high, ratio.goal) == (2.0, 4.0, 1.5)
    assert found["MLP loss, before"].value == 2.3


@pytest.mark.slow
def test_both_engines_train_alike_in_processes_of_their_own(capsys):
    found = {figure.name: figure for figure in cpu_round.measure(SMALL, cpu_round.own_engines(1), blocks=1, rounds=1)}
    assert list(found) == [
        "MLP round, serial",
        "MLP round, auto",
        "MLP round, auto over serial",
        "MLP loss, before",
        "MLP loss, serial",
        "MLP loss, auto",
    ]
    assert found["MLP loss, serial"].value < found["MLP loss, before"].value
    assert found["MLP loss, auto"].value == pytest.approx(found["MLP loss, serial"].value, abs=1e-4)
    assert found["MLP round, auto over serial"].goal == 1.5
    assert "MLP, block 1, auto:" in capsys.readouterr().out


def test_a_contestant_that_fails_is_reported(tmp_path):
    broken = cpu_round.Contestant("broken", [sys.executable, "-c", "raise SystemExit('no such luck')"])
    with pytest.raises(PotluckError, match="broken ended with 1:\nno such luck"):
        cpu_round.run_block(broken, SMALL, tmp_path, 1)
