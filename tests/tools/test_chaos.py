"""Runs that are killed again and again end as unbroken ones; what differs is noticed."""

from __future__ import annotations

import random
import sys

import pytest

from tools import chaos


def test_without_kills_there_is_nothing_to_do(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["chaos", "--local", "0", "--flower", "0"])
    with pytest.raises(SystemExit) as ended:
        chaos.main()
    assert ended.value.code == 0


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(tmp_path):
    assert chaos.local("FedAvg", "serial", tmp_path, random.Random(0), most=2, rounds=12) >= 1
    history = tmp_path / "history.jsonl"
    history.write_text(history.read_text().replace('"round": 3', '"round": 4'))
    with pytest.raises(AssertionError):
        chaos.local("FedAvg", "serial", tmp_path, random.Random(0), most=0, rounds=12)


@pytest.mark.slow
def test_programs_of_a_real_federation_that_are_killed_go_on(tmp_path):
    assert chaos.over_flower(tmp_path, random.Random(0), most=1) == 1
