"""What is logged of a round: nothing where nobody listens, else facts and a line."""

from __future__ import annotations

import logging

import pytest

import potluck
from potluck.federation.round_log import round_facts, round_in_words
from potluck.methods import FedAvg
from tests.tables import made_data, mlp, participants

LOGGER = "potluck.federation.federation"


def federation(**settings):
    people = participants([mlp(i) for i in range(2)])
    return potluck.Federation(people, FedAvg(), test=made_data(20, 3), engine="serial", **settings)


def test_each_round_is_a_line_with_facts(caplog):
    played = federation()
    with caplog.at_level(logging.INFO, logger=LOGGER):
        history = played.run(3)
    lines = [record for record in caplog.records if record.name == LOGGER]
    assert [record.facts["round"] for record in lines] == [1, 2, 3]
    first, last = lines[0], lines[-1]
    assert first.facts["score"] == pytest.approx(history.at(1).score)
    assert first.facts["bytes_up"] == sum(row["bytes_up"] for row in history.at(1).rows) > 0
    assert first.getMessage().startswith("round 1 of 3: mean accuracy ")
    assert "left" in first.getMessage()
    assert last.facts["seconds_left"] == 0
    assert "left" not in last.getMessage()


def test_nothing_is_computed_where_nobody_listens(caplog, monkeypatch):
    monkeypatch.setattr("potluck.federation.federation.round_facts", None)
    with caplog.at_level(logging.WARNING, logger=LOGGER):
        federation().run(1)
    assert not [record for record in caplog.records if record.levelno < logging.WARNING]


def test_the_time_left_is_by_the_rounds_of_this_process():
    history = federation().run(4)
    facts = round_facts(history, last=10, first=2, seconds=6.0)
    assert facts["seconds_left"] == 18.0
    assert round_in_words(facts).endswith("; about 18 s left")


def test_rounds_without_an_evaluation_have_no_score():
    played = federation(evaluate_every=2)
    played.run(4)
    played.history.at(4)
    facts = round_facts(played.history, 9, 0, 1.0)
    assert "score" in facts
    odd = federation(evaluate_every=5)
    seen = []
    odd.run(2, callbacks=[lambda run, rows: seen.append(round_facts(run.history, 2, 0, 1.0))])
    assert "score" not in seen[0]
    assert "score" in seen[1]


def test_who_was_refused_is_named():
    told = {"round": 1, "rounds": 2, "bytes_up": 0, "bytes_down": 0, "seconds_left": 0.0, "refused": {"b": "late"}}
    assert "without b" in round_in_words(told)
