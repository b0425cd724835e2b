"""Statuses as Prometheus reads them, by its own parser."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from potluck.flower.prometheus import exposition
from tests.flower.statuses import standing


def series(*statuses):
    """Each sample by its name and labels."""
    families = text_string_to_metric_families(exposition(statuses).decode())
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


def test_every_state_is_a_series_of_which_one_is_1():
    status = standing()
    status.participants[0].state = "working"
    found = series(status)
    states = {key[1][1]: value for key, value in found.items() if key[0] == "potluck_run_state"}
    assert states == {"waiting": 1, "playing": 0, "paused": 0, "finished": 0, "stopped": 0, "failed": 0}
    ann = {key[2][1]: v for key, v in found.items() if key[0] == "potluck_participant_state" and key[1][1] == "ann"}
    assert ann == {"expected": 0, "here": 0, "working": 1, "away": 0, "declined": 0, "refused": 0}


def test_figures_are_told_of_each_study_and_participant():
    one, two = standing(study="one", round=2, metric="rmse", score=0.5, score_of=2, seconds_left=60.0), standing()
    one.participants[1].bytes_up, one.participants[1].bytes_down, one.participants[1].round = 7, 9, 2
    found = series(one, two)
    assert found["potluck_round", ("study", "one")] == 2
    assert found["potluck_round", ("study", "s")] == 0
    assert found["potluck_rounds", ("study", "one")] == 3
    assert found["potluck_score", ("metric", "rmse"), ("study", "one")] == 0.5
    assert found["potluck_score_participants", ("study", "one")] == 2
    assert found["potluck_left_seconds", ("study", "one")] == 60
    assert found["potluck_received_bytes_total", ("participant", "ben"), ("study", "one")] == 7
    assert found["potluck_sent_bytes_total", ("participant", "ben"), ("study", "one")] == 9
    assert found["potluck_participant_round", ("participant", "ben"), ("study", "one")] == 2
    assert ("potluck_left_seconds", ("study", "s")) not in found


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\\b"])
def test_names_cannot_break_out_of_their_labels(name):
    status = standing(study=name)
    assert series(status)["potluck_round", ("study", name)] == 0


def test_the_page_for_operators_has_every_metric():
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    full = standing(round=2, metric="rmse", score=0.5, score_of=2, seconds_left=60.0)
    names = {name for name, *_ in series(full)} | {"potluck_participant_round"}
    assert len(names) == 12
    assert {name for name in names if f"`{name}`" not in page} == set()
