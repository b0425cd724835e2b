"""What validation data say is noted round by round, changes nothing, and survives breaks."""

from __future__ import annotations

import pytest

import potluck
from potluck.runs.validation_log import VALIDATION, ValidationLog
from tests.runs.validated import federation
from tests.tables import agree


class Log(ValidationLog):
    """Only notes."""

    def judge(self, federation):
        pass


def test_looking_changes_no_history():
    log, played = Log("loss"), federation()
    history = played.run(4, callbacks=[log])
    agree(history.rows(), federation().run(4).rows(), 0)
    assert sorted(log.values) == [1, 2, 3, 4]
    losses = [metrics["loss"] for metrics in played.evaluate(lambda party: party.validation).values()]
    assert log.values[4] == pytest.approx(sum(losses) / 2)


def test_rounds_after_the_checkpoint_are_looked_at_again(tmp_path):
    def cut_off(played, rows):
        if played.history.rounds == 3:
            raise InterruptedError

    log = Log()
    with pytest.raises(InterruptedError):
        federation().run(4, run_dir=tmp_path, checkpoint_every=2, callbacks=[log, cut_off])
    resumed = Log()
    federation().run(4, run_dir=tmp_path, checkpoint_every=2, resume=True, callbacks=[resumed])
    unbroken = Log()
    federation().run(4, callbacks=[unbroken])
    assert resumed.values == unbroken.values


def test_what_was_noted_is_not_looked_at_again(tmp_path):
    federation().run(2, run_dir=tmp_path, callbacks=[Log()])

    class Twice(Log):
        def noted(self, federation):
            pytest.fail("both rounds were noted already")

    again = Twice()
    federation().run(2, run_dir=tmp_path, resume=True, callbacks=[again])
    assert sorted(again.values) == [1, 2]


def test_one_object_goes_on_with_its_federation_and_begins_anew_with_another():
    log, played = Log(), federation()
    played.run(2, callbacks=[log])
    played.run(1, callbacks=[log])
    assert sorted(log.values) == [1, 2, 3]
    federation().run(1, callbacks=[log])
    assert sorted(log.values) == [1]


def test_a_round_that_is_not_evaluated_has_no_value_on_test_data():
    log, played = Log(), federation(evaluate_every=2)
    history = played.run(4, callbacks=[log])
    assert (log.tested[1], log.tested[3]) == (None, None)
    assert log.tested[2] == pytest.approx(history.at(2).score)
    assert sorted(log.values) == [1, 2, 3, 4]


def test_who_has_no_value_does_not_count():
    log = Log("accuracy")
    assert log.mean({"a": {"accuracy": None}, "b": {"accuracy": 0.25}, "c": {"accuracy": 0.75}}) == 0.5


def test_without_validation_data_nothing_is_trained():
    with pytest.raises(potluck.SettingsError, match="no validation data to look at"):
        federation(validation=0.0).run(1, callbacks=[Log()])


def test_a_metric_that_nobody_has():
    with pytest.raises(potluck.SettingsError, match=r"'accurcy' on its validation data\. Did you mean 'accuracy'"):
        federation().run(1, callbacks=[Log("accurcy")])


def test_a_file_that_was_changed(tmp_path):
    federation().run(1, run_dir=tmp_path, callbacks=[Log()])
    (tmp_path / VALIDATION).write_text('{"round": "x"}\n')
    with pytest.raises(potluck.SettingsError, match="not what was written"):
        federation().run(2, run_dir=tmp_path, resume=True, callbacks=[Log()])
