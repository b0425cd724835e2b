"""A setting can be stopped and goes on as if it had not been; the driver keeps to its time."""

import json
import time

import pytest

from evidence import mhat_mnist
from evidence.experiment import Result, play, run
from evidence.run_all import Job, main
from potluck.methods import FD


def table(data, rounds=4):
    return mhat_mnist.table(data, 0, FD(), True, participants=2, rounds=rounds, public=20, private=30)


def scores(result):
    return [(row["round"], row["accuracy"]) for row in result.content["rounds"]]


def test_it_goes_on_where_it_stopped(data, tmp_path):
    whole = Result(tmp_path, "mhat", "whole", 0)
    assert play(table(data), whole, tmp_path / "runs")
    assert not (tmp_path / "runs" / whole.path.stem).exists()
    parts = Result(tmp_path, "mhat", "parts", 0)
    # So late that only the round that makes sure, and the one with the checkpoint, are played.
    assert not play(table(data), parts, tmp_path / "runs", time.monotonic() + 1.0)
    assert [number for number, _ in scores(parts)] == [1, 2]
    again = Result(tmp_path, "mhat", "parts", 0)
    assert play(table(data), again, tmp_path / "runs")
    assert scores(again) == scores(whole)


def test_nothing_begins_after_the_deadline(data, tmp_path):
    result = Result(tmp_path, "mhat", "late", 0)
    assert not play(table(data), result, tmp_path / "runs", time.monotonic() - 1)
    assert scores(result) == []


def test_only_some_rounds_are_measured(data, tmp_path):
    setup = table(data, rounds=5)
    setup.every = 2
    result = Result(tmp_path, "mhat", "some", 0)
    play(setup, result, tmp_path / "runs")
    assert [row["round"] for row in result.content["rounds"] if "accuracy" in row] == [1, 2, 4, 5]


def test_the_command_line(data, tmp_path, capsys):
    arguments = ["--data", str(data.folder), "--results", str(tmp_path / "r"), "--runs", str(tmp_path / "runs")]
    settings = {"tiny": lambda data, seed: table(data)}
    run("toy", settings, [*arguments, "--seeds", "3", "--rounds", "2"])
    assert json.loads((tmp_path / "r" / "toy.tiny.3.json").read_text())["done"]
    assert "toy tiny 3" in capsys.readouterr().out
    run("toy", settings, [*arguments, "--seeds", "3"])
    assert capsys.readouterr().out == ""
    with pytest.raises(SystemExit):
        run("toy", settings, [*arguments, "--settings", "large"])


def test_the_driver_plays_what_is_left(data, tmp_path, capsys):
    planned = [Job("cofed_adult", "local", 0, "cpu"), Job("mhat_mnist", "local-labelled-3", 0, "gpu")]
    folders = ["--data", str(data.folder), "--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    arguments = [*folders, "--logs", str(tmp_path / "logs"), "--bundle", str(tmp_path / "all.tgz"), "--minutes", "2"]
    Result(tmp_path / "results", "mhat_mnist", "local-labelled-3", 0).write(done=True)
    main([*arguments, "--list"], planned)
    assert capsys.readouterr().out.split() == ["cpu", "cofed_adult.local.0"]
    main(arguments, planned)
    assert "cofed_adult.local.0 failed with 1" in capsys.readouterr().out  # there are not 20,000 rows
    assert "reshape" in (tmp_path / "logs" / "cofed_adult.local.0.log").read_text()
    assert (tmp_path / "all.tgz").exists()
