from __future__ import annotations

import json
import re
import sys

import pytest

from potluck import DataError, History, PotluckError
from potluck.core.history import readable_bytes
from tests.tables import cells, row


@pytest.fixture
def history():
    """Two participants, three rounds; the second round is the best."""
    made = History([row(1, "bank", 0.5, 10, 1), row(1, "clinic", 0.25, 20, 2)])
    made.add([row(2, "bank", 0.875, 30, 3), row(2, "clinic", 0.625, 40, 4)])
    made.add([row(3, "bank", 0.75, 50, 5, macro_f1=0.7), row(3, "clinic", 0.5, 60, 6, macro_f1=0.4)])
    return made


def test_rows_come_back_as_they_went_in(history):
    rows = history.rows()
    assert len(rows) == len(history) == 6
    assert rows[0] == row(1, "bank", 0.5, 10, 1)
    assert history.rounds == 3


def test_rows_are_copies(history):
    history.rows()[0]["accuracy"] = 1.0
    history.final.rows[0]["accuracy"] = 1.0
    assert history.rows()[0]["accuracy"] == 0.5
    assert history.final.rows[0]["accuracy"] == 0.75


def test_the_final_standing_is_the_last_round(history):
    final = history.final
    assert (final.round, final.accuracy, final.worst) == (3, 0.625, 0.5)
    assert [r["participant"] for r in final.rows] == ["bank", "clinic"]
    assert not final.chosen_on_test


def test_the_best_standing_says_that_it_was_chosen_on_test_data(history):
    best = history.best
    assert (best.round, best.accuracy, best.worst) == (2, 0.75, 0.625)
    assert best.chosen_on_test


def test_of_equal_rounds_the_first_is_the_best():
    assert History([row(n, "bank", 0.5) for n in (1, 2, 3)]).best.round == 1


def test_a_standing_can_be_asked_for_any_round(history):
    assert history.at(1).accuracy == 0.375
    assert history.at(1).worst == 0.25
    assert history.at(9).rows == ()


def test_participants_without_accuracy_do_not_count_in_the_mean():
    made = History([row(1, "bank", 0.5), row(1, "clinic", None), row(1, "shop", 1.0)])
    assert (made.final.accuracy, made.final.worst) == (0.75, 0.5)
    assert len(made.final.rows) == 3


def test_without_any_accuracy_there_is_no_mean():
    made = History([row(1, "bank", None), row(2, "bank", None)])
    assert (made.final.round, made.final.accuracy, made.final.worst) == (2, None, None)
    assert made.best.accuracy is None
    assert "–" in made.table()


def test_bytes_are_added_up_for_one_or_all(history):
    assert history.bytes() == (210, 21)
    assert history.bytes("clinic") == (120, 12)


def test_nothing_played_yet():
    empty = History()
    assert (len(empty), empty.rounds, empty.rows(), empty.bytes()) == (0, 0, [], (0, 0))
    assert (empty.final.round, empty.final.accuracy, empty.best.accuracy) == (0, None, None)
    assert "after round 0" in empty.table()


def test_json_keeps_everything():
    rows = [row(1, "bänk", 0.1 + 0.2, 3, 4, refused=None, took_part=True), row(1, "clinic", None)]
    again = History.from_json(History(rows).to_json())
    assert again.rows() == rows
    again.add([row(2, "bank", 1.0)])
    assert again.rounds == 2


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), -float("inf")])
def test_a_history_with_a_model_that_diverged_can_be_kept(loss):
    """JSON has no such number: the row says that there is none, before it is written and after."""
    kept = History([row(1, "bank", 0.5) | {"loss": loss}])
    assert kept.rows() == [row(1, "bank", 0.5) | {"loss": None}]
    assert json.loads(kept.to_json()) == kept.rows()
    assert cells(kept.table(), "bank")[3] == "–"


@pytest.fixture
def sparse():
    """Three participants; after the first round one takes part in each round."""
    happened = {"took_part": True, "refused": None}
    made = History(row(1, name, score, 10, 1, **happened, note=name) for name, score in SCORES.items())
    made.add([row(2, "shop", 1.0, 7, 8, **happened, note="again")])
    made.add([row(3, "bank", None, 5, 6, took_part=True, refused="it sent NaN")])
    return made


SCORES = {"bank": 0.5, "clinic": 0.25, "shop": 0.75}


def test_who_did_nothing_stands_as_before(sparse):
    idle = {"seconds": 0.0, "took_part": False, "refused": None}
    assert [r["participant"] for r in sparse.rows()] == ["bank", "clinic", "shop"] * 3
    assert sparse.rows()[3:5] == [row(2, "bank", 0.5, **idle), row(2, "clinic", 0.25, **idle)]
    assert sparse.rows()[7:] == [row(3, "clinic", 0.25, **idle), row(3, "shop", 1.0, **idle)]
    assert list(sparse.rows()[4]) == [*row(2, "clinic", 0.25), "took_part", "refused"]
    assert sparse.rows()[5] == row(2, "shop", 1.0, 7, 8, took_part=True, refused=None, note="again")


def test_what_was_recorded_is_there_as_it_was(sparse):
    assert [(r["round"], r["participant"]) for r in sparse.recorded()][3:] == [(2, "shop"), (3, "bank")]
    assert list(sparse.recorded(2)) == [row(2, "shop", 1.0, 7, 8, took_part=True, refused=None, note="again")]
    assert list(sparse.recorded(4)) == []
    assert History.from_json(sparse.to_json()).rows() == sparse.rows()


def test_every_reader_sees_who_did_nothing(sparse):
    assert len(sparse) == len(sparse.rows()) == 9
    assert [sparse.at(n).accuracy for n in (1, 2, 3)] == [0.5, (0.5 + 0.25 + 1) / 3, 0.625]
    assert (sparse.best.round, sparse.best.worst) == (3, 0.25)
    assert list(sparse.final.rows) == sparse.rows()[6:]
    assert list(sparse.values("accuracy"))[1:] == [(2, [0.5, 0.25, 1.0]), (3, [0.25, 1.0])]
    assert (sparse.bytes(), sparse.bytes("bank"), sparse.seconds) == ((42, 17), (15, 7), 1.25)
    assert cells(sparse.table(), "shop") == ["shop", "100.00%", "–", "0.0000", "100.00%", "17 B", "9 B", "0.5"]


def test_whether_a_row_already_says_it(sparse):
    assert sparse.says("clinic", {"accuracy": 0.25, "loss": 0.75})
    assert sparse.says("bank", {"accuracy": float("nan")})
    assert not sparse.says("clinic", {"accuracy": 0.5})
    assert not sparse.says("clinic", {"r2": None})
    assert not sparse.says("nobody", {})


def test_a_participant_may_have_several_models():
    made = History(
        [
            {"round": 1, "model": "global", **row(1, "server", 0.5)},
            {"round": 1, "model": "student", **row(1, "server", 0.25)},
        ]
    )
    made.add([{"round": 2, "model": "student", **row(2, "server", 0.75)}])
    found = [(r["round"], r["model"], r["accuracy"]) for r in made.rows()]
    assert found == [(1, "global", 0.5), (1, "student", 0.25), (2, "global", 0.5), (2, "student", 0.75)]
    assert [(r["model"], r["accuracy"]) for r in made.final.models] == [("global", 0.5), ("student", 0.75)]
    assert (made.final.rows, made.final.accuracy, made.best.accuracy) == ((), None, None), "they count in no mean"


def test_who_comes_late_is_in_no_earlier_round():
    made = History([row(1, "bank", 0.5), row(2, "bank", 0.5), row(2, "shop", 1.0), row(3, "bank", 0.75)])
    assert [(r["round"], r["participant"]) for r in made.rows()] == [
        (1, "bank"),
        (2, "bank"),
        (2, "shop"),
        (3, "bank"),
        (3, "shop"),
    ]
    assert [len(made.at(n).rows) for n in (1, 2, 3)] == [1, 2, 2]


WRONG = [
    ({"participant": "x"}, "lacks round, bytes_up, bytes_down, seconds; it holds participant"),
    ({}, "it holds nothing"),
    (row(0, "x", 1.0), "round is 0; expected a whole number from 1 on"),
    (row(True, "x", 1.0), "round is True"),
    (row("2", "x", 1.0), "round is '2'"),
    (row(1, 7, 1.0), "participant is 7; expected a name"),
    (row(1, "x", 1.0, model=3), "model is 3; expected a name"),
    (row(1, "x", 1.0, up="9"), "bytes_up is '9'; expected a number"),
    (row(1, "x", 1.0, down=None), "bytes_down is None; expected a number"),
    (row(1, "x", 1.0) | {"accuracy": "good"}, "accuracy is 'good'; expected a number"),
    (row(1, "x", 1.0) | {"seconds": False}, "seconds is False; expected a number"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_what_is_no_row_is_told_and_nothing_of_it_stays(wrong, message, sparse):
    before = sparse.rows()
    with pytest.raises(DataError, match=re.escape(message)):
        sparse.add([row(3, "new", 1.0), row(4, "bank", 1.0), wrong])
    assert (sparse.rows(), sparse.rounds) == (before, 3)
    sparse.add([row(4, "other", 0.125)])
    assert sparse.final.rows[-1]["participant"] == "other"
    assert len(sparse.final.rows) == 4


def test_rounds_come_in_order(sparse):
    with pytest.raises(DataError, match="A row of round 2 comes after one of round 3; expected in order"):
        sparse.add([row(2, "bank", 1.0)])


@pytest.mark.parametrize("text", ["{}", "[1]", "3"])
def test_what_is_no_history_is_told(text):
    with pytest.raises(DataError, match="expected a list of objects"):
        History.from_json(text)


@pytest.fixture
def folder(tmp_path, sparse):
    """A run folder as far as the history goes."""
    lines = "".join(json.dumps(r) + "\n" for r in sparse.recorded())
    (tmp_path / "history.jsonl").write_text(lines)
    return tmp_path


def test_a_history_is_loaded_from_a_folder_or_a_file(folder, sparse):
    assert History.load(folder).rows() == History.load(str(folder / "history.jsonl")).rows() == sparse.rows()


def test_a_line_that_is_being_written_is_left_out(folder, sparse):
    with (folder / "history.jsonl").open("a") as file:
        file.write('{"round": 4, "par')
    assert History.load(folder).rows() == sparse.rows()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1, 2]", "it holds a list; expected an object"),
        (b"null", "it holds a NoneType; expected an object"),
        (b"", "it is no JSON text"),
        (b'{"round": 3,', "it is no JSON text"),
        (b'{"round": "\xff"}', "it is no JSON text: 'utf-8' codec"),
        (b'{"round": ' + b"9" * 5000 + b"}", "it is no JSON text: Exceeds the limit"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "it is nested too deeply"),
        (b'{"round": 3}', "lacks participant"),
        (json.dumps(row(1, "bank", 0.5)).encode(), "A row of round 1 comes after one of round 3"),
    ],
)
def test_a_line_that_is_no_row_is_named(line, message, folder):
    with (folder / "history.jsonl").open("ab") as file:
        file.write(line + b"\n")
    with pytest.raises(DataError, match=rf"history\.jsonl, line 6: .*{re.escape(message)}"):
        History.load(folder)


def test_there_is_no_history_to_load(tmp_path):
    with pytest.raises(DataError, match=r"There is no history in .*; expected a run folder, or its history\.jsonl"):
        History.load(tmp_path)


def test_a_data_frame_holds_the_rows(sparse):
    pandas = pytest.importorskip("pandas")
    frame = sparse.to_pandas()
    assert list(frame.columns) == list(sparse.rows()[0])
    assert frame.groupby("round")["accuracy"].mean().tolist() == [sparse.at(n).accuracy for n in (1, 2, 3)]
    assert frame["bytes_up"].sum() == 42
    assert pandas.isna(frame["accuracy"]).sum() == 1


def test_without_pandas_it_is_said_how_to_get_it(sparse, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PotluckError, match=r"A data frame needs pandas: pip install '\.\[pandas\]'"):
        sparse.to_pandas()


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12.3 MB"), (5e9, "5.0 GB"), (7.25e15, "7250.0 TB")],
)
def test_bytes_are_readable(count, text):
    assert readable_bytes(count) == text


def test_a_round_takes_as_long_as_for_its_slowest():
    made = History([row(1, "a", 0.5, simulated_seconds=2.0), row(1, "b", 0.5, simulated_seconds=3.0)])
    made.add([row(2, "a", 0.5, simulated_seconds=0.5), row(3, "a", 0.75), row(4, "a", 0.8, simulated_seconds=1.0)])
    assert list(made.simulated_seconds()) == [(1, 3.0), (2, 3.5), (4, 4.5)]
