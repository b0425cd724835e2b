"""Which rows a round gives: of those to whom something happened, with what is known of them."""

from __future__ import annotations

import pytest

from potluck.core.history import History
from potluck.federation.evaluation import model_rows, participant_rows
from potluck.federation.tally import ParticipantTally

SCORES = {"a": {"own": {"accuracy": 0.5}}, "b": {"own": {"accuracy": 0.7}, "global": {"accuracy": 0.6}}}
KNOWN = {"a": {"accuracy": 0.1}, "b": {"accuracy": 0.2}, "c": {}}


def rows(scores, history=None, tallies=None, joined=None, there=(), **more):
    given = {"known": KNOWN.__getitem__, "clock": False, "method": "Tried", **more}
    found = participant_rows(3, "abc", there, tallies or {}, joined or {}, scores, history or History(), **given)
    return {row["participant"]: row for row in found}


def test_those_whose_metrics_changed_have_a_row():
    history = History()
    history.add({**row, "round": 2} for row in rows(SCORES).values())
    assert set(rows(SCORES)) == {"a", "b"}
    assert set(rows(SCORES, history)) == {"a"}, "who says that the round was played"
    assert set(rows({**SCORES, "b": {"own": {"accuracy": 0.8}}}, history)) == {"b"}


def test_those_who_took_part_have_a_row_with_what_is_known():
    tallies = {"b": ParticipantTally(bytes_up=5), "c": ParticipantTally(refused="it was away")}
    found = rows({}, tallies=tallies, there=["b"], joined={"b": ParticipantTally(bytes_up=2)})
    assert found["b"] | {"seconds": 0.0} == {
        "round": 3,
        "participant": "b",
        "accuracy": 0.2,
        "bytes_up": 7,
        "bytes_down": 0,
        "seconds": 0.0,
        "took_part": True,
        "refused": None,
    }
    assert "accuracy" not in found["c"]
    assert not found["c"]["took_part"]


def test_a_note_must_not_be_called_like_what_is_measured():
    with pytest.raises(TypeError, match="Tried notes 'accuracy'"):
        rows(SCORES, tallies={"a": ParticipantTally(notes={"accuracy": 1})})


def test_reported_models_have_rows_of_their_own():
    found = list(model_rows(3, SCORES, {"student": {"accuracy": 0.9}}, History()))
    assert [(row["participant"], row["model"], row["accuracy"]) for row in found] == [
        ("b", "global", 0.6),
        ("server", "student", 0.9),
    ]
    history = History([*rows(SCORES).values(), *found])
    assert list(model_rows(4, SCORES, {"student": {"accuracy": 0.9}}, history)) == []
