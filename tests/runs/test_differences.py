"""What differs between settings is told with its place, the old value and the new one."""

from __future__ import annotations

from potluck.runs.differences import SHOWN, told_differences

BEFORE = {"seed": 0, "participants": [{"name": "a", "plan": {"lr": 0.1, "epochs": 1}}, {"name": "b", "plan": None}]}


def test_a_setting_of_a_participant_is_named_by_the_participant():
    now = {"seed": 0, "participants": [{"name": "a", "plan": {"lr": 0.5, "epochs": 1}}, {"name": "b", "plan": None}]}
    assert told_differences(BEFORE, now, ["seed", "participants"]) == "participants.a.plan.lr was 0.1, and is 0.5."


def test_who_came_and_who_left():
    now = {"participants": [{"name": "a", "plan": {"lr": 0.1, "epochs": 1}}, {"name": "c", "plan": None}]}
    told = told_differences(BEFORE, now, ["participants"])
    assert "participants.b was {" in told
    assert "and is not there." in told
    assert "participants.c was not there" in told


def test_only_what_is_asked_for_and_known_is_told():
    assert told_differences({"seed": 0, "data": 1}, {"seed": 1, "data": 1}, ["data", "public data"]) == ""


def test_what_json_does_not_know_is_compared_as_it_is_written():
    assert told_differences({"plan": [1, "x"]}, {"plan": (1, "x")}, ["plan"]) == ""


def test_long_values_and_long_lists_are_cut():
    told = told_differences({}, {f"s{i}": "x" * 1000 for i in range(9)}, [f"s{i}" for i in range(9)])
    assert f"{9 - SHOWN} more differ." in told
    assert len(told) < 500
