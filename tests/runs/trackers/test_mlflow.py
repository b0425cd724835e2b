"""A store of MLflow's, read back with its own client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from potluck.runs.trackers import MLflow
from tests.runs.trackers.runs import break_off, play


@pytest.fixture
def uri(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MLflow puts files
    return f"sqlite:///{tmp_path}/mlflow.db"


def runs(uri, experiment="potluck"):
    client = MlflowClient(tracking_uri=uri)
    return client, client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


def points(client, run, name):
    return [(point.step, pytest.approx(point.value)) for point in client.get_metric_history(run.info.run_id, name)]


@pytest.mark.slow
def test_a_run_with_settings_metrics_and_files(tmp_path, uri):
    history = play(tmp_path / "run", MLflow(uri, experiment="hospitals", participants=True))
    client, (run,) = runs(uri, "hospitals")
    assert (run.info.run_name, run.info.status) == ("FedAvg, seed 1", "FINISHED")
    assert run.data.params["method.name"] == "FedAvg"
    assert [(n, history.at(n).score) for n in (1, 2)] == points(client, run, "accuracy")
    assert "accuracy/p2" in run.data.metrics
    names = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert names == {"settings.json", "history.jsonl", "summary.json"}
    kept = client.download_artifacts(run.info.run_id, "summary.json", str(tmp_path))
    assert json.loads(Path(kept).read_text())["accuracy"] == history.final.score


@pytest.mark.slow
def test_a_run_that_goes_on_goes_on_there(tmp_path, uri):
    break_off(tmp_path / "run", MLflow(uri), after=3)
    client, (run,) = runs(uri)
    assert run.info.status == "FAILED"
    play(tmp_path / "run", MLflow(uri), rounds=4, resume=True)
    _, (run,) = runs(uri)
    assert run.info.status == "FINISHED"
    assert [step for step, _ in points(client, run, "bytes_up")] == [1, 2, 3, 4]


def test_a_server_that_is_not_there_ends_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2")
    tracker = MLflow("http://127.0.0.1:9")
    assert play(tmp_path, tracker).rounds == 2
    assert "after round 0" in tracker.summary()["MLflow failed"]
