"""A run that is recorded says what it reached, and all that it was made with."""

from __future__ import annotations

import torch

import potluck
from potluck.reproduction.recording import file_of
from potluck.reproduction.result_lines import read_lines
from tests.reproduction.items import write_item


def test_each_run_that_is_played_becomes_a_line(tmp_path):
    path = write_item(tmp_path)
    found = potluck.reproduce(path, seeds=1, out=tmp_path / "out", record=tmp_path / "results")
    lines = list(read_lines(tmp_path / "results/item.jsonl"))
    assert [line.run for line in lines] == ["item.smoke.FedAvg.0", "item.smoke.Local.0"]
    fedavg, local = lines
    assert (fedavg.experiment, fedavg.setting) == ("item", "smoke.FedAvg")
    assert (fedavg.planned, fedavg.played, fedavg.done, fedavg.seed) == (1, 1, True, 0)
    assert [100 * fedavg.measured["accuracy"][-1]] == found.values("FedAvg", "accuracy")
    assert [local.about["measures"]["accuracy"]] == found.values("Local", "accuracy")
    assert local.about["measures"]["gain over Local %"] == 0
    assert "method=Local" in local.about["changes"]
    assert (fedavg.device, fedavg.versions["torch"]) == ("cpu", torch.__version__)
    assert len(fedavg.data["participants' data"]) == 64
    assert fedavg.data == local.data
    assert fedavg.rounds["bytes_up"][0] > 0
    assert local.rounds["bytes_up"] == [0]
    assert fedavg.start
    assert fedavg.seconds > 0
    assert fedavg.beside["jobs"] == 1
    assert set(fedavg.participants) == {"site1", "site2", "site3"}


def test_what_was_there_is_recorded_no_second_time(tmp_path):
    path, results = write_item(tmp_path), tmp_path / "results"
    potluck.reproduce(path, out=tmp_path / "out")
    potluck.reproduce(path, out=tmp_path / "out", record=results)
    assert not results.exists()
    potluck.reproduce(path, seeds=2, out=tmp_path / "out", record=results)
    assert [line.seed for line in read_lines(results / "item.jsonl")] == [1, 1]


def test_where_lines_are(tmp_path):
    assert file_of("fedin-table-2b", tmp_path) == tmp_path / "fedin/table-2b.jsonl"
    assert file_of("mine", tmp_path) == tmp_path / "mine.jsonl"
