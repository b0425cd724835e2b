"""A setting can be stopped and goes on as if it had not been; the driver keeps to its time."""

import time

import pytest
import torch

from evidence import mhat_mnist
from evidence.experiment import Result, play, run
from evidence.result_files import file_of
from evidence.run_all import Job, main
from potluck.methods import FD
from potluck.reproduction.result_lines import ResultLine, append, read_lines


def table(data, rounds=4):
    return mhat_mnist.table(data, 0, FD(), True, participants=2, rounds=rounds, public=20, private=30)


def scores(result):
    return [(row["round"], row["accuracy"]) for row in result.content["rounds"]]


def test_it_goes_on_where_it_stopped(data, tmp_path):
    runs = tmp_path / "runs"
    whole = Result(tmp_path, runs, "mhat", "whole", 0)
    assert play(table(data), whole, runs)
    assert list(runs.iterdir()) == []
    parts = Result(tmp_path, runs, "mhat", "parts", 0)
    # So late that only the round that makes sure, and the one with the checkpoint, are played.
    assert not play(table(data), parts, tmp_path / "runs", time.monotonic() + 1.0)
    assert [number for number, _ in scores(parts)] == [1, 2]
    assert not parts.done
    again = Result(tmp_path, runs, "mhat", "parts", 0)
    assert play(table(data), again, runs)
    assert scores(again) == scores(whole)
    assert again.done
    lines = {line.run: line for line in read_lines(parts.path)}
    assert lines["mhat.parts.0"].played == 2
    assert lines["mhat.parts.0"].withdrawn == "cut off; mhat.parts.0-2 goes on with it"
    assert lines["mhat.parts.0-2"].measured == lines["mhat.whole.0"].measured
    assert lines["mhat.parts.0-2"].start == lines["mhat.parts.0"].start


def test_a_line_says_how_it_was_made(data, tmp_path):
    result = Result(tmp_path, tmp_path / "runs", "mhat", "one", 0)
    play(table(data, rounds=1), result, tmp_path / "runs")
    (line,) = read_lines(result.path)
    assert (line.engine, line.device, line.precision) == ("auto", "cpu", "torch")
    assert line.method.startswith("FD(")
    assert line.plan.startswith("Plan(optimizer='sgd'")
    assert (line.planned, line.played, line.done) == (1, 1, True)
    assert line.versions["torch"] == torch.__version__
    assert line.data["samples"] == [30, 30]
    assert line.data["measured"] == len(data["mnist"].y_test)
    assert len(line.data["participants' data"]) == len(line.data["measured on"]) == 64
    assert line.beside["cores"] >= 1
    assert line.carried_over is None
    other = table(data, rounds=1)
    other.test = (other.test[0], (other.test[1] + 1) % 10)
    play(other, changed := Result(tmp_path, tmp_path / "runs", "mhat", "changed", 0), tmp_path / "runs")
    differing = list(read_lines(changed.path))[-1]
    assert differing.data["measured on"] != line.data["measured on"]
    assert differing.data["participants' data"] == line.data["participants' data"]


def test_nothing_begins_after_the_deadline(data, tmp_path):
    result = Result(tmp_path, tmp_path / "runs", "mhat", "late", 0)
    assert not play(table(data), result, tmp_path / "runs", time.monotonic() - 1)
    assert scores(result) == []
    assert not result.path.exists()


def test_only_some_rounds_are_measured(data, tmp_path):
    setup = table(data, rounds=5)
    setup.every = 2
    result = Result(tmp_path, tmp_path / "runs", "mhat", "some", 0)
    play(setup, result, tmp_path / "runs")
    assert [row["round"] for row in result.content["rounds"] if "accuracy" in row] == [1, 2, 4, 5]


def test_the_command_line(data, tmp_path, capsys):
    arguments = ["--data", str(data.folder), "--results", str(tmp_path / "r"), "--runs", str(tmp_path / "runs")]
    settings = {"tiny": lambda data, seed: table(data)}
    run("toy", settings, [*arguments, "--seeds", "3", "--rounds", "2"])
    assert [line.done for line in read_lines(tmp_path / "r" / "toy.jsonl")] == [True]
    assert "toy tiny 3" in capsys.readouterr().out
    run("toy", settings, [*arguments, "--seeds", "3"])
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        run("toy", settings, [*arguments, "--settings", "large"])


def test_the_driver_plays_what_is_left(data, tmp_path, capsys):
    planned = [Job("cofed_adult", "local", 0, "cpu"), Job("mhat_mnist", "local-labelled-3", 0, "gpu")]
    folders = ["--data", str(data.folder), "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    arguments = [*folders, "--logs", str(tmp_path / "logs"), "--bundle", str(tmp_path / "all.tgz"), "--minutes", "2"]
    played = ResultLine(run="x", experiment="mhat_mnist", setting="local-labelled-3", seed=0, done=True)
    append(file_of("mhat_mnist", "local-labelled-3", tmp_path / "results"), played)
    main([*arguments, "--list"], planned)
    assert capsys.readouterr().out.split() == ["cpu", "cofed_adult.local.0"]
    main(arguments, planned)
    assert "cofed_adult.local.0 failed with 1" in capsys.readouterr().out  # there are not 20,000 rows
    assert "reshape" in (tmp_path / "logs" / "cofed_adult.local.0.log").read_text()
    assert (tmp_path / "all.tgz").exists()
