from __future__ import annotations

import pytest

from potluck import History
from tests.tables import cells, row


def test_the_table_shows_the_last_round_and_marks_the_best():
    history = History([row(1, "bank", 0.5, 10, 1), row(1, "clinic", 0.25, 20, 2)])
    history.add([row(2, "bank", 0.875, 30, 3), row(2, "clinic", 0.625, 40, 4)])
    history.add([row(3, "bank", 0.75, 50, 5, macro_f1=0.7), row(3, "clinic", 0.5, 60, 6, macro_f1=0.4)])
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


def test_further_models_of_participants_stand_beside_them_and_the_server_s_below():
    history = History([row(1, "bank", 0.5), row(1, "clinic", 0.25)])
    history.add(
        [
            row(1, "bank", 0.75, model="global"),
            row(1, "clinic", 0.625, model="global"),
            row(1, "clinic", None, model="old"),
            row(1, "server", 0.875, model="student"),
        ]
    )
    table = history.table()
    assert cells(table, "bank")[:5] == ["bank", "50.00%", "75.00%", "–", "–"]
    assert cells(table, "clinic")[:4] == ["clinic", "25.00%", "62.50%", "–"]
    assert cells(table, "mean")[:4] == ["mean", "37.50%", "68.75%", "–"]
    assert cells(table, "worst")[:4] == ["worst", "25.00%", "62.50%", "–"]
    assert cells(table, "server: student")[:6] == ["server: student", "87.50%", "", "", "–", "0.1250"]
    lines = table.splitlines()
    assert [word in lines[2] for word in ("global", "old", "student")] == [True, True, False]
    place = {line.strip("│ ").split(" ")[0]: number for number, line in enumerate(lines)}
    assert place["server:"] > place["worst"] > place["clinic"]


def test_of_labels_the_same_two_metrics_stand_beside_accuracy_whichever_were_measured():
    for more in ({}, {"macro_f1": 0.5}, {"macro_f1": 0.5, "balanced_accuracy": 0.25}):
        heading = History([row(1, "bank", 0.5, **more)]).table().splitlines()[2]
        assert "F1" in heading
        assert "loss" in heading
        assert "balanced" not in heading
