"""Measures of hand-made histories."""

from __future__ import annotations

from dataclasses import replace

import pytest

from potluck.core.errors import SettingsError
from potluck.core.history import History
from potluck.reproduction.measures import measure_named
from tests.report.histories import trial

RUNS = {
    "CoFED": trial("CoFED", 0, {"a": 0.5, "b": 0.3}, {"a": 0.9, "b": 0.7}, {"a": 0.6, "b": 0.6}, up=10),
    "FedAvg": trial("FedAvg", 0, {"a": 0.5, "b": 0.5}, up=40),
    "Local": trial("Local", 0, {"a": 0.4, "b": 0.5}, up=0, down=0),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", 60),
        ("best accuracy", 80),
        ("rounds to best", 2),
        ("rounds to 40%", 1),
        ("rounds to 60%", 2),
        ("rounds to 99.5%", None),
        ("gain over Local %", 35),  # 0.6 / 0.4 and 0.6 / 0.5: 50% and 20%
        ("share of FedAvg", 60 / 80),
        ("MB sent", 10e-6),
        ("M values sent", 2.5e-6),
        ("time over Local %", 200),
        ("pseudolabels", None),
        ("accuracy by FedAvg", 1.2),
        ("accuracy by CoFED", 1),
    ],
)
def test_by_hand(name, expected):
    found = measure_named(name)("CoFED", RUNS)
    assert found == (None if expected is None else pytest.approx(expected))


def test_labels_that_were_received_are_counted():
    rows = [{**row, "received": 10 * place} for place, row in enumerate(RUNS["CoFED"].history.rows())]
    runs = {"CoFED": replace(RUNS["CoFED"], history=History(rows))}
    assert measure_named("pseudolabels")("CoFED", runs) == 45  # 40 and 50 in the last round


def test_without_the_row_it_counts_against_there_is_nothing():
    alone = {"CoFED": RUNS["CoFED"]}
    assert measure_named("gain over Local %")("CoFED", alone) is None
    assert measure_named("share of FedAvg")("CoFED", alone) is None
    assert measure_named("time over Local %")("CoFED", alone) is None
    assert measure_named("accuracy by FedMD")("CoFED", alone) is None


def test_an_unknown_measure_is_told():
    with pytest.raises(SettingsError, match=r"no measure 'acuracy'.*Did you mean 'accuracy'"):
        measure_named("acuracy")
