"""What was spent stays spent, also after a restart."""

from __future__ import annotations

import pytest

from potluck.core.errors import PayloadError
from potluck.flower import policy as policy_module
from potluck.flower.policy import Ledger, Policy, PolicyError


def test_rounds_are_counted_also_those_played_again(tmp_path):
    path = tmp_path / "ledger.json"
    for _ in range(13):
        Ledger(path, Policy(), 2).begin("round")
    with pytest.raises(PolicyError, match="allows 13 trainings in this federation, which are done"):
        Ledger(path, Policy(), 2).begin("round")
    Ledger(path, Policy(max_trainings=14), 2).begin("round")


def test_joinings_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(policy_module, "JOININGS", 2)
    for _ in range(2):
        Ledger(tmp_path / "ledger.json", Policy(), 2).begin("join")
    with pytest.raises(PolicyError, match="allows 2 joinings in this federation, which are done"):
        Ledger(tmp_path / "ledger.json", Policy(), 2).begin("join")


def spend(ledger, seconds, monkeypatch, work=lambda: None):
    """Works for some seconds, by a clock of its own."""
    times = [0.0, float(seconds)]
    monkeypatch.setattr(policy_module.time, "perf_counter", lambda: times.pop(0))
    with ledger.work():
        work()


def test_bytes_and_hours_are_counted_also_of_work_that_came_to_nothing(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path, Policy(max_bytes=100, max_hours=1), 2)
    ledger.send(60)
    spend(ledger, 1800, monkeypatch)
    with pytest.raises(PolicyError, match="allows 100 bytes"):
        ledger.send(41)
    ledger.check()
    Ledger(path, Policy(max_bytes=100, max_hours=1), 2).send(40)
    with pytest.raises(PolicyError, match="100 bytes in this federation, which have left"):
        Ledger(path, Policy(max_bytes=100), 2).check()
    with pytest.raises(ZeroDivisionError):
        spend(Ledger(path, Policy(), 2), 1800, monkeypatch, lambda: 1 / 0)
    with pytest.raises(PolicyError, match="allows 1 hours in this federation, which are over"):
        Ledger(path, Policy(max_hours=1), 2).begin("round")


def test_a_round_is_evaluated_once(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", Policy(), 2)
    assert ledger.evaluation(1) is None
    ledger.keep_evaluation(1, {"metrics": {"accuracy": 0.5}})
    assert Ledger(tmp_path / "ledger.json", Policy(), 2).evaluation(1) == {"metrics": {"accuracy": 0.5}}


@pytest.mark.parametrize("text", ["", "[]", '{"x": 1}', "{"])
def test_a_ledger_that_cannot_be_read_is_an_error(text, tmp_path):
    (tmp_path / "ledger.json").write_text(text)
    with pytest.raises(PayloadError, match="what was spent is not known"):
        Ledger(tmp_path / "ledger.json", Policy(), 2)
