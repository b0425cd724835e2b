"""Offline files of Weights & Biases, read back record by record."""

from __future__ import annotations

import json

import pytest
import wandb
from wandb.proto import wandb_internal_pb2 as messages
from wandb.sdk.internal.datastore import DataStore

from potluck.runs.trackers import WandB
from tests.runs.trackers.runs import break_off, play


def records(folder):
    """All records of the offline runs in a folder, oldest first, when wandb's own process has written them."""
    wandb.teardown()
    found = []
    for path in sorted(folder.glob("wandb/offline-run-*/run-*.wandb")):
        store = DataStore()
        store.open_for_scan(str(path))
        while (data := store.scan_data()) is not None:
            record = messages.Record()
            record.ParseFromString(data)
            found.append(record)
    return found


def history_of(found):
    rows = []
    for record in found:
        if record.WhichOneof("record_type") == "history":
            items = record.history.item
            rows.append({".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items})
    return rows


@pytest.mark.slow
def test_a_run_offline_with_settings_rounds_and_files(tmp_path):
    history = play(tmp_path, WandB(project="hospitals"))
    found = records(tmp_path)
    run = next(record.run for record in found if record.WhichOneof("record_type") == "run")
    assert (run.project, run.display_name) == ("hospitals", "FedAvg, seed 1")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert config["method.name"] == "FedAvg"
    rows = history_of(found)
    assert [(row["_step"], row["accuracy"]) for row in rows] == [
        (n, pytest.approx(history.at(n).score)) for n in (1, 2)
    ]
    kept = next(record.artifact for record in found if record.WhichOneof("record_type") == "artifact")
    assert {entry.path for entry in kept.manifest.contents} == {"settings.json", "history.jsonl", "summary.json"}


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_its_name(tmp_path):
    break_off(tmp_path, WandB(), after=3)
    play(tmp_path, WandB(), rounds=4, resume=True)
    found = records(tmp_path)
    names = {record.run.run_id for record in found if record.WhichOneof("record_type") == "run"}
    assert names == {json.loads((tmp_path / "wandb.json").read_text())["run"]}
    assert {row["_step"] for row in history_of(found)} == {1, 2, 3, 4}
