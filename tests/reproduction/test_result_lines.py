"""Lines are added, never written over; what is withdrawn stays and says why."""

from __future__ import annotations

import json
from concurrent.futures import ProcessPoolExecutor

import pytest

from potluck.core.errors import DataError
from potluck.reproduction.result_lines import ResultLine, append, read_lines, text_of, withdraw


def line(run="toy.one.0", **more):
    columns = {"rounds": {"seconds": [1.5, 2.0]}, "measured": {"round": [2], "accuracy": [0.1 + 0.2]}}
    return ResultLine(**{"run": run, "experiment": "toy", "setting": "one", "seed": 0, "played": 2, **columns, **more})


def test_what_was_written_is_read_to_the_last_digit(tmp_path):
    path = tmp_path / "new" / "table-1.jsonl"
    kept = append(path, line(content={"rate": 1.0}, method="Ä"))
    assert list(read_lines(path)) == [kept]
    assert kept.measured["accuracy"] == [0.30000000000000004]
    assert '"rate":1.0' in path.read_text(encoding="utf-8")
    assert '"seconds":[1.5,2]' in path.read_text(encoding="utf-8")


def test_nothing_is_written_over(tmp_path):
    path = tmp_path / "table-1.jsonl"
    append(path, line())
    before = path.read_bytes()
    assert append(path, line(seed=1)).run == "toy.one.0-2"
    assert append(path, line(seed=2)).run == "toy.one.0-3"
    assert path.read_bytes().startswith(before)
    assert [one.seed for one in read_lines(path)] == [0, 1, 2]


def test_several_processes_add_in_turn(tmp_path):
    path = tmp_path / "table-1.jsonl"
    with ProcessPoolExecutor(3) as pool:
        names = list(pool.map(_add_one, [path] * 9))
    assert len({one.run for one in read_lines(path)}) == len(set(names)) == 9


def _add_one(path):
    return append(path, line()).run


def test_a_withdrawn_line_stays_and_says_why(tmp_path):
    path = tmp_path / "table-1.jsonl"
    for seed in range(3):
        append(path, line(f"toy.one.{seed}", seed=seed))
    before = path.read_text().splitlines()
    withdraw(path, "toy.one.1", "made by an engine with a fault")
    after = path.read_text().splitlines()
    assert (after[0], after[2]) == (before[0], before[2])
    assert json.loads(after[1]) == json.loads(before[1]) | {"withdrawn": "made by an engine with a fault"}
    for run, reason, told in (
        ("toy.one.1", "again", "withdrawn already: made by an engine"),
        ("toy.one.9", "no such", "no line 'toy.one.9'"),
        ("toy.one.0", " ", "without a reason"),
    ):
        with pytest.raises(DataError, match=told):
            withdraw(path, run, reason)
    assert path.read_text().splitlines() == after


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "line 2"),
        ('{"run": "x", "experiment": "toy", "sede": 1}', "sede"),
        ('{"run": "x", "experiment": "toy", "played": 3, "rounds": {"seconds": [1]}}', "played is 3"),
        ('{"run": "x", "experiment": "toy", "measured": {"round": [1], "accuracy": []}}', "differ in length"),
    ],
)
def test_a_wrong_line_is_told_with_its_number(tmp_path, text, told):
    path = tmp_path / "table-1.jsonl"
    path.write_text(text_of(line()) + text + "\n")
    with pytest.raises(DataError, match=told) as error:
        list(read_lines(path))
    assert "table-1.jsonl, line 2" in str(error.value)


def test_a_file_that_is_not_there_has_no_lines(tmp_path):
    assert list(read_lines(tmp_path / "nothing.jsonl")) == []
