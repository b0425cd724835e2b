"""A history is followed line by line, whoever writes it, and anew where rounds are played again."""

from __future__ import annotations

import pytest

from potluck.core.errors import DataError
from potluck.watch.history_tail import DROPS, HistoryTail
from tests.watch.folders import row, write_rows


def test_only_whole_lines_count_and_each_once(tmp_path):
    tail = HistoryTail(tmp_path / "history.jsonl")
    assert tail.read().rounds == 0
    write_rows(tmp_path, row(1, "a", 0.5), row(1, "b", 0.75))
    assert tail.read().points == {1: 0.625}
    write_rows(tmp_path, row(2, "a", 0.25))
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('{"round": 2, "participant": "b", ')
    found = tail.read()
    assert found.points == {1: 0.625, 2: 0.5}, "b stands as it stood"
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write('"accuracy": 1.0, "bytes_up": 5, "bytes_down": 5, "seconds": 1.0}\n')
    found = tail.read()
    assert (found.points, found.standing) == ({1: 0.625, 2: 0.625}, {"a": 0.25, "b": 1.0})
    assert (found.bytes, found.travelled["b"], found.seconds) == ((35, 8), (15, 6), 7.0)


def test_rounds_that_are_played_again_are_counted_once(tmp_path):
    tail = HistoryTail(tmp_path / "history.jsonl")
    write_rows(tmp_path, *(row(number, "a", 0.1 * number) for number in (1, 2, 3)))
    assert tail.read().rounds == 3
    write_rows(tmp_path, row(1, "a", 0.1), begin=True)
    assert (tail.read().rounds, tail.read().bytes) == (1, (10, 1))
    tail.read()
    write_rows(tmp_path, row(1, "a", 0.9), row(2, "a", 0.9), row(3, "a", 0.9), row(4, "a", 0.9), begin=True)
    assert tail.read().points == dict.fromkeys((1, 2, 3, 4), 0.9), "a longer file of the same name, and another one"
    (tmp_path / "history.jsonl").unlink()
    assert tail.read().rounds == 0


def test_the_headline_is_the_first_metric_and_models_beside_count_bytes_alone(tmp_path):
    tail = HistoryTail(tmp_path / "history.jsonl")
    write_rows(tmp_path, row(1, "a"), {"model": "common", **row(1, "a", 0.99)}, row(2, "a", None))
    found = tail.read()
    assert (found.metric, found.points, found.standing) == ("accuracy", {1: 0.5}, {"a": None})
    assert found.bytes == (30, 3)


def test_whoever_dropped_out_is_named_the_last_ones_of_many(tmp_path):
    write_rows(tmp_path, *(row(n, "a", refused="late") for n in range(1, DROPS + 6)), row(DROPS + 6, "b"))
    found = HistoryTail(tmp_path / "history.jsonl").read()
    assert found.dropped == DROPS + 5
    assert (found.drops[0].round, found.drops[-1].round, found.drops[-1].why) == (6, DROPS + 5, "late")


def test_what_is_no_history(tmp_path):
    (tmp_path / "history.jsonl").write_text("no\n")
    with pytest.raises(DataError, match="no JSON"):
        HistoryTail(tmp_path / "history.jsonl").read()
