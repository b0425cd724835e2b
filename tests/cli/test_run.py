"""``potluck run``: a file in, a folder and a table out; it can be stopped at any time."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal

import pytest

from potluck.core.history import History
from potluck.recipes import read
from tests.cli.commands import potluck, start
from tests.recipes.files import MODULE, NETS, SMALL, write
from tests.tables import agree


def rows(folder):
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]


def test_a_run_is_shown_and_kept(here):
    result = potluck("run", write(here))
    history = read(here / "small.toml").federation().run(2)
    agree(history.rows(), rows(here / "runs/small-3"), 0)
    assert History(rows(here / "runs/small-3")).table() in result.stdout
    assert result.stdout.endswith("Kept in runs/small-3\n")
    told = [
        re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (round \d of \d): .*$", r"\1", line)
        for line in result.stderr.splitlines()
    ]
    assert told == ["round 1 of 2", "round 2 of 2"]


def test_with_log_level_warning_nothing_is_said(here):
    assert potluck("run", write(here), "--log-level", "warning").stderr == ""


def test_the_table_is_not_wrapped_where_it_is_piped(here):
    lines = potluck("run", write(here)).stdout.splitlines()
    assert len({len(line) for line in lines if line.startswith(("┏", "┃", "│", "└"))}) == 1


def test_options_stand_above_the_file(here):
    options = ("--out", "kept", "--engine", "serial", "--device", "cpu", "--seed", 5, "--rounds", 1)
    potluck("run", write(here), *options, "--set", "method.alpha=0.9")
    settings = json.loads((here / "kept/settings.json").read_text())
    assert (settings["engine"], settings["device"], settings["seed"]) == ("serial", "cpu", 5)
    assert settings["method"]["alpha"] == 0.9
    assert {row["round"] for row in rows(here / "kept")} == {1}
    command = shlex.split(settings["recipe"]["command"])
    again = ["--engine", "serial", "--device", "cpu", "--seed", "5", "--rounds", "1", "--set", "method.alpha=0.9"]
    assert command == ["potluck", "run", str(here / "small.toml"), *again]


def test_where_the_time_went(here):
    shown = potluck("run", write(here), "--profile").stdout
    assert "where the time went" in shown
    profile = json.loads((here / "runs/small-3/summary.json").read_text())["profile"]
    assert {"train", "predict", "merge", "evaluate", "checkpoint"} <= set(profile)
    assert all(f"{seconds:.2f}" in shown for seconds in profile.values())
    potluck("run", here / "small.toml", "--out", "plain")
    assert "profile" not in json.loads((here / "plain/summary.json").read_text())


def test_the_strategies_of_trainings_are_shown(here, monkeypatch):
    monkeypatch.setattr(
        "potluck.engines.Auto.decisions", lambda self: {"strategies": {"MLP 0123": ["alone", "stacked"]}}
    )
    assert "MLP 0123: trained alone; stacked" in potluck("run", write(here), "--profile").stdout


def test_waves_and_disk_change_nothing(here):
    potluck("run", write(here), "--out", "memory")
    potluck("run", here / "small.toml", "--out", "disk", "--set", "storage=disk", "--set", "max_concurrent=2")
    agree(rows(here / "memory"), rows(here / "disk"), 0)


def test_the_seed_decides(here):
    path = write(here)
    for out, seed in (("a", 3), ("b", 4), ("c", 3)):
        potluck("run", path, "--out", out, "--seed", seed)
    agree(rows(here / "a"), rows(here / "c"), 0)
    assert [row["accuracy"] for row in rows(here / "a")] != [row["accuracy"] for row in rows(here / "b")]


def test_the_engine_does_not(here):
    path = write(here, NETS)
    for engine in ("serial", "batched"):
        potluck("run", path, "--out", engine, "--engine", engine)
    for one, other in zip(rows(here / "serial"), rows(here / "batched"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)


def test_going_on(here):
    path = write(here)
    potluck("run", path, "--out", "whole", "--rounds", 4)
    potluck("run", path, "--out", "parts", "--rounds", 1)
    result = potluck("run", path, "--out", "parts", "--rounds", 4, "--resume")
    agree(rows(here / "whole"), rows(here / "parts"), 0)
    assert "after round 4" in result.stdout
    assert "Nothing was left" not in result.stdout


@pytest.mark.parametrize("rounds", [1, 2])
def test_nothing_left_to_play(here, rounds):
    potluck("run", write(here))
    result = potluck("run", here / "small.toml", "--rounds", rounds, "--resume")
    said = f"Nothing was left to play: 2 rounds are there, and {rounds} in all were asked for.\n"
    assert said in result.stdout
    assert "after round 2" in result.stdout
    assert {row["round"] for row in rows(here / "runs/small-3")} == {1, 2}


def test_a_run_is_not_overwritten(here):
    potluck("run", write(here))
    said = potluck("run", here / "small.toml", fails=2).stderr
    assert "runs/small-3 already holds a run. Go on with --resume, or choose another folder with --out." in said


def test_resuming_what_never_began(here):
    result = potluck("run", write(here), "--resume")
    assert result.stderr.startswith("There is no run in runs/small-3 yet: starting from the beginning.\n")
    assert len(rows(here / "runs/small-3")) == 6


def test_another_federation_is_not_resumed(here):
    potluck("run", write(here))
    said = potluck("run", here / "small.toml", "--resume", "--set", "method=Local", fails=2).stderr
    assert "belongs to another federation: method differ" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--engine", "fast"],
            "command line, engine: There is no engine 'fast'. Known: auto, autotune, batched, ray, ser",
        ),
        (["--device", "gpu"], "command line, device: Device 'gpu' cannot be used here"),
        (["--rounds", "-1"], "-1 is not in the range x>=0"),
        (["--rounds", "many"], "'many' is not a valid int"),
        (["--set", "method.name=Local"], "To leave out the settings in the file: --set method=Local"),
        (["--set", "method=FedAvg"], "FedAvg does not fit this federation:\n- it "),
        (["--set", "method=FedAvg"], "small.toml` says which methods fit."),
        (["--out", "small.toml"], "The run cannot be stored in small.toml: File exists."),
        (["--out", "small.toml/x"], "The run cannot be stored in small.toml/x: Not a directory."),
    ],
)
def test_mistakes(here, options, said):
    assert said in potluck("run", write(here), *options, fails=2).stderr
    assert not (here / "runs").exists()


def test_a_warning_is_shown(here, monkeypatch):
    (here / "warning.py").write_text(
        "import logging, potluck\n"
        "class Loud(potluck.Method):\n"
        "    def round(self, me):\n"
        "        logging.getLogger('potluck.loud').warning('[%s] is loud', me.name)\n"
        "        yield potluck.Fit()\n"
    )
    result = potluck("run", write(here), "--set", "method=warning:Loud", "--rounds", 1)
    said = [line for line in result.stderr.splitlines() if "is loud" in line]
    assert sorted(line[20:] for line in said) == ["[net1] is loud", "[net2] is loud", "[tree] is loud"]


def test_what_is_named_lies_beside_the_file(here):
    path = write(here / "other place", SMALL.replace('"mlp", hidden = [8]', '"mine_run:build"'))
    (here / "other place" / "mine_run.py").write_text(MODULE)
    potluck("run", path, "--rounds", 1)
    assert "Sequential" in (here / "runs/small-3/settings.json").read_text()


def test_ctrl_c_on_a_terminal_and_the_command_that_goes_on(here):
    path = write(here / "a folder")
    options = ("--rounds", 12, "--out", "a run", "--set", "participants.net.plan.epochs=5", "--engine", "serial")
    terminal, end = pty.openpty()
    process = start("run", path, *options, stderr=end)
    os.close(end)
    said, stopped = "", False
    while text := read_some(terminal):
        said += text
        if "accuracy" in said and not stopped:  # the first round is over
            process.send_signal(signal.SIGINT)
            stopped = True
    os.close(terminal)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "dividing the data, building the models" in said
    assert "rounds" in said
    assert "Traceback" not in said
    told, command = said.strip().splitlines()[-2:]
    assert "Stopped after round" in told
    name, *arguments = shlex.split(command)
    assert name == "potluck"
    assert "after round 12" in potluck(*arguments).stdout
    unbroken = read(path, ["participants.net.plan.epochs=5"]).federation(engine="serial").run(12)
    agree(unbroken.rows(), rows(here / "a run"), 1e-9)


def read_some(terminal):
    try:
        return os.read(terminal, 4096).decode(errors="replace")
    except OSError:  # the other end is closed
        return ""
