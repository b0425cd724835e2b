"""The scripts in ``benchmarks/``: peers left out are told, all ways train alike, tables get into the docs."""

from __future__ import annotations

import json
import sys
import venv

import numpy as np
import pytest

from benchmarks import cpu_round, flower_rounds, flower_simulation, growth, growth_rounds, overhead, tables
from benchmarks.script import run_script
from potluck.bench.results import Figure, Results
from potluck.bench.scenarios import MLP
from potluck.core.errors import PotluckError

SMALL = MLP.replace(count=3, samples=64)


def test_without_an_interpreter_peers_are_left_out(capsys):
    assert cpu_round.peer_ways(None, 2) == []
    assert capsys.readouterr().out == "Without --peers-python the peers are left out: pfl-research, Flower.\n"


def test_missing_peers_are_told_one_by_one(tmp_path, capsys):
    venv.create(tmp_path, symlinks=True)  # which has nothing; this one may have Flower
    python = str(tmp_path / "bin" / "python")
    assert cpu_round.peer_ways(python, 2) == []
    assert capsys.readouterr().out.splitlines() == [
        f"pfl-research is left out: {python} has no torch, pfl.",
        f"Flower is left out: {python} has no torch, flwr, ray.",
    ]
    cpu_round.peer_ways("/no/such/python", 2)
    assert "/no/such/python cannot be used: [Errno 2] No such file or directory" in capsys.readouterr().out


def test_a_block_that_crashed_is_played_again(tmp_path, capsys):
    cpu_round.lay_out(SMALL, tmp_path)
    crashes_once = tmp_path / "crashes_once.py"
    crashes_once.write_text(
        "import pathlib, subprocess, sys\n"
        "mark = pathlib.Path(__file__).with_suffix('.mark')\n"
        "if not mark.exists():\n"
        "    mark.touch()\n"
        "    sys.exit(3)\n"
        "sys.exit(subprocess.call(sys.argv[1:]))\n"
    )
    serial = cpu_round.own_ways(1)[0]
    flaky = cpu_round.Way("flaky", [sys.executable, str(crashes_once), *serial.command], {})
    assert len(cpu_round.play(flaky, SMALL, tmp_path, 2).seconds) == 2
    assert "flaky ended with 3: this block is played again." in capsys.readouterr().out


def test_all_ways_find_the_same_federation(tmp_path):
    cpu_round.lay_out(SMALL, tmp_path)
    x, y = next(SMALL.shares())
    assert (np.load(tmp_path / "x.npy")[0] == x).all()
    assert (np.load(tmp_path / "y.npy")[0] == y).all()
    assert json.loads((tmp_path / "federation.json").read_text())["batch_size"] == 32
    assert cpu_round.loss_of(SMALL, tmp_path, tmp_path / "start.npz") == pytest.approx(np.log(10), abs=0.3)


def test_ratios_come_from_blocks():
    blocks = {
        "serial": [cpu_round.Played([9.0, 4.0, 6.0], 0.5), cpu_round.Played([9.0, 8.0, 8.0], 0.5)],
        "auto": [cpu_round.Played([9.0, 2.0, 3.0], 0.5), cpu_round.Played([9.0, 2.0, 2.0], 0.5)],
    }
    found = {figure.name: figure for figure in cpu_round.figures(SMALL, blocks, before=2.3)}
    assert (found["MLP round, serial"].value, found["MLP round, serial"].first) == (7.0, 9.0)
    ratio = found["MLP round, auto over serial"]
    assert (ratio.low, ratio.high, ratio.goal) == (2.0, 4.0, 1.5)
    assert found["MLP loss, before"].value == 2.3


@pytest.mark.slow
def test_both_engines_train_alike_in_processes_of_their_own(capsys):
    found = {figure.name: figure for figure in cpu_round.measure(SMALL, cpu_round.own_ways(1), blocks=1, rounds=1)}
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


def test_a_way_that_fails_is_told(tmp_path):
    broken = cpu_round.Way("broken", [sys.executable, "-c", "raise SystemExit('no such luck')"], {})
    with pytest.raises(PotluckError, match="broken ended with 1:\nno such luck"):
        cpu_round.play(broken, SMALL, tmp_path, 1)


def test_growth_is_measured_and_drawn(tmp_path):
    played = {count: growth_rounds.play(count, 4, 2, "serial", "cpu", None) for count in (2, 4)}
    found = {figure.name: figure for figure in growth.figures(played)}
    assert len(played[4]["seconds"]) == len(played[4]["memory"]) == 2
    assert found["4 over 2: most memory"].goal == 1.3
    assert found["4: most memory"].value > 50
    growth.draw(played, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_growth_in_a_process_of_its_own():
    options = ["--samples", "4", "--rounds", "2", "--engine", "serial", "--device", "cpu", "--max-concurrent", "1"]
    assert len(growth.play(2, options)["seconds"]) == 2
    with pytest.raises(PotluckError, match="2 participants ended with"):
        growth.play(2, ["--samples", "many"])


def test_tables_are_put_into_the_page(tmp_path):
    figures = [Figure.of("MLP round", [1.0, 2.0, 3.0], "s"), Figure.of("CNN round", [4.0], "s")]
    machine = {"cpu": "C", "cores": 2, "torch": "2.13"}
    Results("cpu_round", figures, machine=machine, measured="2026-01-02").write(tmp_path / "cpu_round.json")
    page = "".join(f"Text\n<!-- figures: {what} -->\nold\n<!-- end -->\n" for what in ("cpu_round MLP", "growth"))
    (tmp_path / "cpu_round.png").touch()
    once = tables.filled(page, tmp_path)
    assert "![cpu_round](../benchmarks/results/cpu_round.png)" in once
    assert "| MLP round | 2.00 s | 1.00 – 3.00 |  |  |" in once
    assert "CNN" not in once
    assert "old" not in once
    assert "<!-- figures: growth -->\n\nNot measured yet.\n\n<!-- end -->" in once
    assert "Measured on 2026-01-02: C, 2 cores, torch 2.13." in once
    assert tables.filled(once, tmp_path) == once


def test_a_script_tells_mistakes_plainly(monkeypatch):
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


def test_the_page_has_a_place_for_every_benchmark():
    named = {block[2] for block in tables.BLOCK.finditer(tables.PAGE.read_text())}
    measured = {"cpu_round", "gpu_round", "overhead", "merging", "growth", "precision", "bench", "bench_gpu"}
    assert named == {*measured, "flower_rounds", "flower_simulation"}


def test_goals_of_rounds_over_flower():
    empty, minute, large = flower_rounds.PARTS
    assert [figure.met for figure in empty.figures([6.0, 8.0], [7.0, 9.0])] == [None, None, True]
    assert [figure.met for figure in empty.figures([6.0], [7.6])] == [None, None, False]
    assert [figure.met for figure in minute.figures([6.0], [72.1])] == [None, False]
    assert [figure.met for figure in minute.figures([6.0], [71.9])] == [None, True]
    assert [figure.met for figure in large.figures([6.0], [30.0])] == [None, None]


def test_flowers_simulation_is_what_the_engines_are_compared_with():
    found = flower_simulation.figures(5, {"serial": 2.0, "batched": 0.5, "Flower's simulation": 10.0})
    assert [figure.value for figure in found] == [2.0, 0.5, 10.0, 5.0, 20.0]


def test_kept_results_can_be_read():
    for path in (cpu_round.HERE / "results").glob("*.json"):
        assert Results.read(path).figures, path
        assert json.loads(path.read_text())["machine"]["cpu"]
