"""``--data-dir`` says where data sets are, for the command and for the processes that it starts."""

from __future__ import annotations

import os

import pytest

from tests.cli.commands import potluck
from tests.data.sets.published_files import mnist_files, put

RUN = """
rounds = 1
method = "Local"
data.source = "mnist"
[[participants]]
name = "a"
model = { name = "mlp", hidden = [4] }
"""


@pytest.mark.parametrize(
    "command",
    [
        ["check", "federation.toml"],
        ["run", "federation.toml"],
        ["compare", "Local", "--federation", "federation.toml", "--seeds", "1"],
    ],
)
def test_data_sets_are_found_there(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POTLUCK_DATA", "nowhere")
    put(tmp_path / "mine" / "MNIST", mnist_files())
    (tmp_path / "federation.toml").write_text(RUN)
    potluck(*command, "--data-dir", "mine")
    assert os.environ["POTLUCK_DATA"] == "mine"


def test_the_command_that_goes_on_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POTLUCK_DATA", "")
    put(tmp_path / "mine" / "mnist", mnist_files())
    (tmp_path / "federation.toml").write_text(RUN)
    potluck("run", "federation.toml", "--data-dir", "mine")
    assert "--data-dir mine" in (tmp_path / "runs/federation-0/settings.json").read_text()
