"""A run in a folder: begun once, stored round by round, taken up by another federation."""

from __future__ import annotations

import json
import time

import pytest

import potluck
from potluck.federation.stored_run import StoredRun
from potluck.methods import FedAvg
from tests.tables import cnn, made_data, participants


def federation(seed=0):
    people = participants([cnn(i) for i in range(2)], plan=potluck.Plan(epochs=1, batch_size=8))
    return potluck.Federation(people, FedAvg(), test=made_data(20, 3), seed=seed, engine="serial")


def rounds_stored(folder):
    return [json.loads(line)["round"] for line in (folder / "history.jsonl").read_text().splitlines()]


def test_what_was_played_before_is_stored_at_the_beginning_and_only_once(tmp_path):
    played = federation()
    played.run(1)
    run = StoredRun(played, tmp_path / "run", resume=False)
    with run:
        run.begin()
        run.begin()
    assert rounds_stored(tmp_path / "run") == [1, 1]


def test_a_checkpoint_is_written_where_it_is_asked_for(tmp_path):
    played = federation()
    run = StoredRun(played, tmp_path / "run", resume=False)
    with run:
        run.begin(checkpoint_every=2)
        for number in (1, 2):
            played.run(1)
            played.last_round = 9
            run.keep(number)
    assert rounds_stored(tmp_path / "run") == [1, 1, 2, 2]
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1

    other = federation()
    with StoredRun(other, tmp_path / "run", resume=True) as again:
        again.begin()
    assert other.history.rounds == 2
    assert {p.round for p in other.participants.values()} == {2} == {other.server.round}
    assert list(other.history.rows()) == list(played.history.rows())


def test_the_folder_is_locked_while_it_is_written(tmp_path):
    with StoredRun(federation(), tmp_path / "run", resume=False) as run:
        run.begin()
        with pytest.raises(potluck.SettingsError, match="being written by another run"):
            StoredRun(federation(), tmp_path / "run", resume=True).__enter__()
    with StoredRun(federation(), tmp_path / "run", resume=True) as run:
        run.begin()


def test_a_folder_of_another_federation_is_refused_and_left_unlocked(tmp_path):
    federation(seed=0).run(1, run_dir=tmp_path / "run")
    with pytest.raises(potluck.PotluckError, match="seed"), StoredRun(federation(1), tmp_path / "run", True) as run:
        run.begin()
    assert federation(seed=0).run(2, run_dir=tmp_path / "run", resume=True).rounds == 2


def test_a_second_run_in_one_process_goes_on_in_the_folder(tmp_path):
    played = federation()
    played.run(1, run_dir=tmp_path / "run")
    played.run(2, run_dir=tmp_path / "run")
    assert rounds_stored(tmp_path / "run") == [1, 1, 2, 2, 3, 3]
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["rounds"] == 3


def test_a_setting_that_differs_is_named_with_both_values(tmp_path):
    federation().run(1, run_dir=tmp_path / "run")
    people = participants([cnn(i) for i in range(2)], plan=potluck.Plan(epochs=1, batch_size=8, lr=0.25))
    other = potluck.Federation(people, FedAvg(), test=made_data(20, 3), engine="serial")
    before = json.loads((tmp_path / "run" / "settings.json").read_text())["participants"][0]["plan"]["lr"]
    with pytest.raises(potluck.PotluckError, match=rf"participants.p0.plan.lr was {before}, and is 0.25\."):
        other.run(2, run_dir=tmp_path / "run", resume=True)


def test_the_folder_says_when_where_and_how_long(tmp_path):
    federation().run(1, run_dir=tmp_path / "run")
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for found in (settings, summary):
        assert found["machine"]["cores"] >= 1
        assert found["versions"]["torch"]
        assert "resumed" not in found
    assert settings["started"] == summary["started"] <= summary["ended"]
    assert summary["wall_seconds"] > summary["server_seconds"] > 0
    federation().run(2, run_dir=tmp_path / "run", resume=True)
    again = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert again["started"] == summary["started"] <= again["resumed"][0] <= again["ended"]


def test_the_servers_seconds_are_those_of_its_half_alone(tmp_path, monkeypatch):
    """Not those of training, nor of waiting for answers."""
    merge = FedAvg.weights

    def slow(self, server, answers):
        time.sleep(0.2)
        return merge(self, server, answers)

    slow.__dict__.update(merge.__dict__)
    monkeypatch.setattr(FedAvg, "weights", slow)
    played = federation()

    def slow_training(jobs):
        time.sleep(0.5)
        return timed(jobs)

    timed = played.engine.timed
    monkeypatch.setattr(played.engine, "timed", slow_training)
    played.run(2, run_dir=tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert 0.4 <= summary["server_seconds"] < summary["wall_seconds"] - 1.0
