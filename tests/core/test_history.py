from __future__ import annotations

import json

import pytest

from potluck import History
from potluck.core.history import readable_bytes


def row(round, participant, accuracy, up=0, down=0, **more):
    loss = None if accuracy is None else 1 - accuracy
    sent = {"bytes_up": up, "bytes_down": down, "seconds": 0.25}
    return {"round": round, "participant": participant, "accuracy": accuracy, "loss": loss, **sent, **more}


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


def cells(table, name):
    """The cells of the line that begins with a name."""
    line = next(line for line in table.splitlines() if line.startswith(f"│ {name} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_table_shows_the_last_round_and_marks_the_best(history):
    table = history.table()
    assert "after round 3" in table
    assert "round 2*" in table
    assert "* the best round, chosen on test data: not a result" in table
    assert cells(table, "bank") == ["bank", "75.00%", "70.00%", "0.2500", "87.50%", "90 B", "9 B", "0.8"]
    assert cells(table, "clinic") == ["clinic", "50.00%", "40.00%", "0.5000", "62.50%", "120 B", "12 B", "0.8"]
    assert cells(table, "mean") == ["mean", "62.50%", "", "", "75.00%", "210 B", "21 B", "1.5"]
    assert cells(table, "worst")[:5] == ["worst", "50.00%", "", "", "62.50%"]


@pytest.mark.parametrize("name", ["[bold]", "a [red]b[/red]", ":smile:", "bänk № 3"])
def test_the_table_shows_names_as_they_are(name):
    assert cells(History([row(1, name, 0.5)]).table(), name)[0] == name


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12.3 MB"), (5e9, "5.0 GB"), (7.25e15, "7250.0 TB")],
)
def test_bytes_are_readable(count, text):
    assert readable_bytes(count) == text
