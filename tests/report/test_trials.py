"""How one metric of a run went."""

from __future__ import annotations

import pytest

from potluck.core.history import History
from potluck.report.trials import Entry, Trial, course
from tests.report.histories import history


def test_means_bytes_and_seconds_round_by_round():
    found = course(history([{"a": 0.2, "b": 0.4}, {"a": 0.6, "b": 0.8}]), "accuracy")
    assert found.rounds == (1, 2)
    assert found.means == pytest.approx((0.3, 0.7))
    assert (found.bytes, found.seconds) == ((60, 120), (2.0, 4.0))
    assert found.final == {"a": 0.6, "b": 0.8}


def test_who_sat_out_stands_as_before():
    found = course(history([{"a": 0.2, "b": 0.4}, {"a": 0.6}]), "accuracy")
    assert found.means[1] == pytest.approx(0.5)
    assert found.final == {"a": 0.6, "b": 0.4}


def test_who_is_not_measured_any_more_and_models_of_the_server_do_not_count():
    rows = [
        *history([{"a": 0.2, "b": 0.4}]).recorded(),
        *({**row, "round": 2, "accuracy": None} for row in history([{"b": 0.0}]).recorded()),
        *({**row, "round": 2, "model": "global"} for row in history([{"server": 0.9}]).recorded()),
    ]
    assert course(History(rows), "accuracy").final == {"a": 0.2}


def test_without_the_metric_there_is_no_score():
    trial = Trial(Entry("Local"), 0, history([{"a": 0.2}]))
    assert trial.score("r2") is None
    assert trial.course("r2").means == (None,)
    assert course(History(), "accuracy").rounds == ()


def test_an_entry_is_called_by_what_was_swept():
    assert Entry("CoFED").label == "CoFED"
    assert Entry("CoFED", (("method.alpha", "0.3"), ("plan.lr", "0.1"))).label == "CoFED alpha=0.3, lr=0.1"
