"""What was spent stays spent, also after a restart."""

from __future__ import annotations

import pytest

from potluck.core.errors import PayloadError
from potluck.flower.ledger import Ledger
from potluck.flower.policy import Policy, PolicyError


def test_rounds_are_counted_also_those_played_again(tmp_path):
    path = tmp_path / "ledger.json"
    for _ in range(13):
        Ledger(path, Policy(), 2).begin_round()
    with pytest.raises(PolicyError, match="allows 13 trainings in this federation, which are done"):
        Ledger(path, Policy(), 2).begin_round()
    Ledger(path, Policy(max_trainings=14), 2).begin_round()


def test_bytes_and_hours_are_counted(tmp_path):
    path = tmp_path / "ledger.json"
    ledger = Ledger(path, Policy(max_bytes=100, max_hours=1), 2)
    ledger.send(60, 1800)
    with pytest.raises(PolicyError, match="allows 100 bytes"):
        ledger.send(41, 0)
    ledger.check()
    Ledger(path, Policy(max_bytes=100, max_hours=1), 2).send(40, 0)
    with pytest.raises(PolicyError, match="100 bytes in this federation, which have left"):
        Ledger(path, Policy(max_bytes=100), 2).check()
    Ledger(path, Policy(), 2).send(0, 1800)
    with pytest.raises(PolicyError, match="allows 1 hours in this federation, which are over"):
        Ledger(path, Policy(max_hours=1), 2).begin_round()


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
