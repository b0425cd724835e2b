"""Tables of rounds in files, which go on where a run goes on."""

from __future__ import annotations

import csv
import json

import pytest

import potluck
from potluck.runs.trackers import CsvFile, JsonLines
from tests.runs.trackers.runs import break_off, play


def table(path):
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("kind", "name"), [(CsvFile, "metrics.csv"), (JsonLines, "metrics.jsonl")])
def test_a_line_for_each_round_in_the_run_folder(tmp_path, kind, name):
    history = play(tmp_path, kind())
    found = table(tmp_path / name)
    assert [int(line["round"]) for line in found] == [1, 2]
    assert float(found[1]["accuracy"]) == pytest.approx(history.final.score)
    assert int(found[1]["bytes_up"]) == history.bytes()[0]


@pytest.mark.parametrize(("kind", "name"), [(CsvFile, "metrics.csv"), (JsonLines, "metrics.jsonl")])
def test_a_round_that_is_played_again_stands_there_once(tmp_path, kind, name):
    break_off(tmp_path / "run", kind(), after=3)
    path = tmp_path / "run" / name
    assert [int(line["round"]) for line in table(path)] == [1, 2, 3]
    with path.open("a") as file:
        file.write('{"round": 4, "acc' if kind is JsonLines else "4,0.")
    play(tmp_path / "run", kind(), rounds=4, resume=True)
    assert [int(line["round"]) for line in table(path)] == [1, 2, 3, 4]
    play(tmp_path / "new", kind(str(path)), rounds=1)
    assert [int(line["round"]) for line in table(path)] == [1], "a run that begins begins the file"


def test_a_column_that_comes_later_is_there_for_all(tmp_path):
    file = CsvFile(str(tmp_path / "deep" / "here.csv"), participants=True)
    play(tmp_path / "run", file, rounds=1)
    file.write(2, {"accuracy": 0.5, "new": 1.0})
    file.write(3, {"accuracy": 0.25})
    found = table(tmp_path / "deep" / "here.csv")
    assert [line["new"] for line in found] == ["", "1.0", ""]
    assert [line["accuracy"] for line in found][1:] == ["0.5", "0.25"]
    assert "accuracy/p2" in found[0]


def test_without_a_folder_a_path_is_needed(tmp_path):
    with pytest.raises(potluck.SettingsError, match="give it a `path`"):
        play(None, CsvFile())
    play(None, JsonLines(str(tmp_path / "here.jsonl")), rounds=1)
    assert len(table(tmp_path / "here.jsonl")) == 1
