"""Participants who take no part: what they score, and that nobody notices them."""

from __future__ import annotations

import json

import pytest
import torch

import potluck
from potluck.core.errors import SettingsError
from potluck.methods import FML, FedAvg, Local, PerHeFed
from tests.tables import agree, cnn, made_data, mlp, participants

TEST = made_data(30, 9)


def newcomers(count=1, make=mlp, test=None):
    return [potluck.Participant(f"new{i}", make(50 + i), made_data(12, 40 + i), test=test) for i in range(count)]


def federation(method=None, engine="serial", **settings):
    people = participants([mlp(0), mlp(1), mlp(2)], plan=potluck.Plan(epochs=1, batch_size=8))
    return potluck.Federation(people, method or FedAvg(), engine=engine, test=TEST, seed=5, **settings)


def test_a_newcomer_gets_the_global_model():
    played = federation(unseen=newcomers())
    played.run(2)
    ours, others = played.unseen["new0"].weights(), played.participants["p0"].weights()
    assert all(torch.equal(entry, others[name]) for name, entry in ours.items())
    assert played.unseen_scores["new0"]["own"] == played.evaluate(played.test_of)["p0"]


def test_models_that_the_method_reports_are_reported_of_newcomers():
    """FML's newcomer has nothing but its own start, and the common model that the others have trained."""
    played = federation(FML(), unseen=newcomers())
    played.run(2)
    everybody = played.engine.evaluate(played.participants, played.test_of, played.method.answering())
    assert played.unseen_scores["new0"]["common"] == everybody["p0"]["common"]
    assert played.unseen_scores["new0"]["own"] != everybody["p0"]["own"]


def test_a_newcomer_is_judged_by_test_data_of_its_own():
    played = federation(unseen=newcomers(test=made_data(7, 3)))
    played.run(1)
    assert played.unseen_scores["new0"]["own"] != played.evaluate(played.test_of)["p0"]


def test_epochs_of_its_own_are_trained_before():
    without, after = federation(Local(), unseen=newcomers()), federation(Local(), unseen=newcomers(), unseen_epochs=3)
    for played in (without, after):
        played.run(1)
    assert without.unseen_scores["new0"]["own"]["loss"] > after.unseen_scores["new0"]["own"]["loss"]


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_nobody_notices_them(storage):
    """Neither in what is learned nor in the history, in one go or in two."""
    alone, beside = federation(), federation(unseen=newcomers(2), unseen_epochs=1, storage=storage)
    expected = alone.run(4)
    beside.run(2)
    found = beside.run(2)
    agree(expected.rows(), found.rows(), tolerance=0)
    assert set(beside.server.state["samples"]) == {"p0", "p1", "p2"}
    assert beside.travelled == alone.travelled


def test_serial_and_batched_agree():
    made = [federation(engine=engine, unseen=newcomers(3), unseen_epochs=2) for engine in ("serial", "batched")]
    for each in made:
        each.run(2)
    for name, scores in made[0].unseen_scores.items():
        assert scores["own"] == pytest.approx(made[1].unseen_scores[name]["own"], rel=1e-4)


def test_the_summary_and_a_resumed_run_say_the_same(tmp_path):
    played = federation(unseen=newcomers(), unseen_epochs=1)
    played.run(2, run_dir=tmp_path / "a")
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["unseen"] == played.unseen_scores
    federation(unseen=newcomers(), unseen_epochs=1).run(1, run_dir=tmp_path / "b")
    resumed = federation(unseen=newcomers(), unseen_epochs=1)
    resumed.run(2, run_dir=tmp_path / "b", resume=True)
    assert resumed.unseen_scores == played.unseen_scores


def test_they_need_no_device_of_the_clock():
    """Nobody waits for them, and nobody is too slow."""
    devices = {f"p{n}": potluck.Device(steps_per_second=10, upload=1e4, download=1e4) for n in range(3)}
    clock = potluck.VirtualClock(devices=devices, answer_timeout=60)
    timed = federation(clock=clock, unseen=newcomers(), unseen_epochs=1)
    timed.run(2)
    plain = federation(unseen=newcomers(), unseen_epochs=1)
    plain.run(2)
    assert timed.unseen_scores == plain.unseen_scores


def test_one_that_fits_nobody_is_refused_at_the_start():
    with pytest.raises(potluck.RequirementsError, match="new0"):
        federation(unseen=newcomers(make=cnn))


def test_somebody_takes_part():
    with pytest.raises(SettingsError, match="All participants are unseen"):
        potluck.Federation([], potluck.methods.FedAvg(), unseen=newcomers())


def test_names_differ():
    x, y = made_data(5, 0)
    with pytest.raises(SettingsError, match="Two participants are named 'p0'"):
        federation(unseen=[potluck.Participant("p0", mlp(0), (x, y))])


def test_a_method_that_lets_nobody_join_late_has_nothing_for_them():
    people = participants([cnn(0), cnn(1)])
    with pytest.raises(SettingsError, match="unseen names new0, but with PerHeFed nobody may join late"):
        potluck.Federation(people, PerHeFed(inter=0.5, intra=0.5), unseen=newcomers(make=cnn))


@pytest.mark.parametrize("epochs", [-1, 1.5, True])
def test_epochs_are_a_number(epochs):
    with pytest.raises(SettingsError, match="unseen_epochs is"):
        federation(unseen=newcomers(), unseen_epochs=epochs)


@pytest.mark.parametrize("keep_optimizer", [False, True])
def test_each_time_they_are_newcomers_again(keep_optimizer):
    """What one was given, learned and remembers of an earlier run is forgotten when it comes again."""
    settings = {"unseen_epochs": 2, "keep_optimizer": keep_optimizer}
    at_once, by_and_by = (federation(Local(), unseen=newcomers(), **settings) for _ in range(2))
    at_once.run(2)
    by_and_by.run(1)
    by_and_by.run(1)
    assert by_and_by.unseen_scores == at_once.unseen_scores == at_once.evaluate_unseen()
