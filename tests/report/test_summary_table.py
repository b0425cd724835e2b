"""The table of a comparison and the sentences around it."""

from __future__ import annotations

import dataclasses

from potluck.report.summary_table import (
    answer,
    failures,
    pairs_table,
    ranking_sentence,
    summary_table,
    summary_text,
    tried_table,
)
from tests.report.histories import four_methods, standings, trial


def two(**more):
    return standings(
        trial("CoFED", 0, {"a": 0.9, "b": 0.5}),
        trial("Local", 0, {"a": 0.7, "b": 0.6}, up=0, down=0),
        trial("CoFED", 1, {"a": 0.8, "b": 0.8}),
        trial("Local", 1, {"a": 0.6, "b": 0.6}, up=0, down=0),
        **more,
    )


def test_the_row_of_a_method():
    table = summary_table(two(target=0.75))
    assert table.rows[0] == [
        "CoFED", "75.0 ± 7.1", "+12.5 ± 10.6", "0.5 of 2", "65.0 ± 21.2", "10 B", "20 B", "60 B", "1.0 (1 of 2)",
        "60 B", "2.0",
    ]  # fmt: skip
    assert table.rows[1][2:4] == ["–", "–"]
    assert table.rows[1][8:10] == ["–", "–"]
    assert len(summary_table(two()).headings) == 9


def test_those_who_took_no_part_have_a_column_where_there_are_any():
    runs = two().trials
    seen = [dataclasses.replace(run, unseen={"new": {"accuracy": 0.1 * n}, "odd": {}}) for n, run in enumerate(runs)]
    table = summary_table(standings(*seen[:3], runs[3]))
    place = table.headings.index("newcomers")
    assert table.headings[place - 1] == "worst tenth"
    assert [row[place] for row in table.rows] == ["10.0 ± 14.1", "10.0"]


def test_the_answer_is_a_sentence():
    found = two()
    assert answer(found, found.significance()) == (
        "CoFED is best: 75.0 ± 7.1% accuracy after round 1, on average over 2 participants and 2 seeds, 12.5 points "
        "ahead of Local, which 2 seeds cannot tell from chance."
    )
    many = four_methods(8)
    assert answer(many, many.significance()).endswith("ahead of FedAvg, a difference that is real.")


def test_where_local_is_best_that_is_the_answer():
    found = standings(trial("CoFED", 0, {"a": 0.5}), trial("Local", 0, {"a": 0.7}))
    assert answer(found, found.significance()).startswith("Nothing beats Local, which is training alone: 70.0%")
    alone = standings(trial("Local", 0, {"a": 0.7}))
    assert answer(alone, alone.significance()) == (
        "Local reaches 70.0% accuracy after round 1, on average over 1 participant and 1 seed."
    )


def test_pairs_and_ranks():
    found = four_methods(8).significance()
    rows = pairs_table(found, four_methods(8).metric).rows
    assert len(rows) == 6
    assert {row[-1] for row in rows} == {"yes"}
    assert "Mean ranks: CoFED 1.00, FedAvg 2.00, FD 3.00, Local 4.00" in ranking_sentence(found)
    assert {row[-1] for row in pairs_table(two().significance(), two().metric).rows} == {"too few seeds"}
    assert ranking_sentence(two().significance()) == ""


def test_all_settings_of_a_sweep_are_shown():
    assert tried_table(two()) is None
    found = standings(
        *(
            trial("CoFED", 0, {"a": value}, settings=[("method.alpha", alpha)], validation={"a": 1 - value})
            for alpha, value in (("0.1", 0.9), ("0.5", 0.6))
        )
    )
    assert tried_table(found).rows == [
        ["CoFED alpha=0.1", "10.0", "90.0", ""],
        ["CoFED alpha=0.5", "40.0", "60.0", "chosen"],
    ]
    assert "validation data alone" in summary_text(found)


def test_what_failed_is_told_once_for_all_its_seeds():
    found = two(failed={"FD, seed 0": "no.", "FD, seed 1": "no.", "MHAT lr=1, seed 0": "never."})
    assert failures(found) == ["FD, seeds 0, 1: no.", "MHAT lr=1, seed 0: never."]
    assert "Not played:\n- FD, seeds 0, 1: no." in summary_text(found)


def test_lines_are_not_wrapped():
    lines = summary_text(four_methods(3)).splitlines()
    assert lines[0].endswith(".")
    assert [line.split()[0] for line in lines[4:8]] == ["CoFED", "FedAvg", "FD", "Local"]


def test_what_optuna_tried_stands_with_what_became_of_it():
    setting = [["plan.lr", "0.1"]]
    trials = [
        {"settings": [["plan.lr", "0.5"]], "state": "pruned", "value": 0.25, "values": {"1": 0.25}, "why": ""},
        {"settings": setting, "state": "complete", "value": 0.75, "values": {"1": 0.5, "2": 0.75}, "why": ""},
        {"settings": setting, "state": "complete", "value": 0.75, "values": {"1": 0.5, "2": 0.75}, "why": "as trial 1"},
        {"settings": [["plan.lr", "9"]], "state": "failed", "value": None, "values": {}, "why": "it broke"},
    ]
    search = {"method": "FD", "trials": 4, "folder": "tuning/FD", "tried": trials}
    runs = [trial("FD", 3, {"a": 0.5}, settings=[("plan.lr", "0.1")]), trial("Local", 3, {"a": 0.4})]
    found = standings(*runs, about={"tuning": [search]})
    table = tried_table(found)
    assert table.rows == [
        ["FD lr=0.5", "25.0", "1", "cut off"],
        ["FD lr=0.1", "75.0", "2", "chosen"],
        ["FD lr=0.1", "75.0", "2", "as trial 1"],
        ["FD lr=9", "–", "0", "failed: it broke"],
    ]
    assert found.choice[1] == (
        "Of each method the best of 4 settings that Optuna tried is shown, chosen by accuracy on validation data of "
        "seed 3 alone; 1 of 4 trials were cut off early."
    )


def test_a_search_that_failed_is_named():
    found = standings(trial("FD", 0, {"a": 0.5}), failed={"MHAT, tuning": "it does not fit", "FD, seed 1": "no"})
    assert failures(found) == ["MHAT, tuning: it does not fit", "FD, seed 1: no"]
