"""Run folders opened again: participants as they were after the last round."""

from __future__ import annotations

import json

import numpy as np
import pytest

import potluck
from potluck.core.errors import DataError, SettingsError
from potluck.methods import Local
from potluck.recipes import read
from potluck.recipes.finished_run import is_run, participant_of
from potluck.runs.checkpoint import CheckpointError
from tests.recipes.files import SMALL, here
from tests.tables import made_data

__all__ = ["here"]


@pytest.fixture
def run(here):
    """A run of the small file, and the federation that played it."""
    (here / "small.toml").write_text(SMALL)
    federation = read(here / "small.toml").federation()
    federation.run(2, run_dir=here / "run")
    return here / "run", federation


@pytest.mark.parametrize("name", ["net2", "tree"])
def test_a_participant_answers_as_it_did(name, run):
    folder, played = run
    assert is_run(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    federation, found = participant_of(folder, name)
    test = federation.test_of(found)
    assert found.round == 2
    np.testing.assert_array_equal(
        found.predict_proba(test.x.numpy()), played.participants[name].predict_proba(test.x.numpy())
    )
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_which_participant_must_be_clear(run):
    with pytest.raises(SettingsError, match="has 3 participants; expected --participant, one of: net1, net2, tree"):
        participant_of(run[0], None)
    with pytest.raises(SettingsError, match="no participant 'net3'"):
        participant_of(run[0], "net3")


def test_a_federation_made_in_python_is_told(tmp_path):
    people = [potluck.Participant("ann", "mlp", made_data(20, 0))]
    potluck.Federation(people, Local()).run(1, run_dir=tmp_path / "run")
    with pytest.raises(SettingsError, match=r"made in Python.*federation.participants\['ann'\].save"):
        participant_of(tmp_path / "run", None)


def test_a_servers_folder_is_told(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps({"participants": [{"name": "ann", "weight": 1.0}]}))
    with pytest.raises(SettingsError, match="There, in each one's state folder: potluck export STATE"):
        participant_of(tmp_path, "ann")


def test_settings_or_checkpoints_that_are_not_whole_are_told(run):
    folder, _ = run
    for path in folder.glob("checkpoints/*/manifest.json"):
        path.write_text("{}")
    with pytest.raises(DataError, match="no whole checkpoint"):
        participant_of(folder, "tree")
    (folder / "settings.json").write_text("{}")
    with pytest.raises(DataError, match="cannot be read"):
        participant_of(folder, "tree")


def test_settings_of_another_run_are_told(run):
    folder, _ = run
    settings = json.loads((folder / "settings.json").read_text())
    settings["recipe"]["plan"]["lr"] = 0.5
    (folder / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match="participants differ"):
        participant_of(folder, "net1")
