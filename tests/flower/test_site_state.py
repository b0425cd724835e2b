"""State folders opened again: a participant as it was after its last round."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from potluck.core.errors import DataError, SettingsError
from potluck.flower.client import Client
from potluck.flower.config import read_participant
from potluck.flower.site_state import note_site, participant_of
from potluck.methods import CoFED, FedProto
from potluck.runs.checkpoint import CheckpointError
from tests.flower.fakes import CPU, PUBLIC, FakeGrid, agreed, served
from tests.flower.programs import Site
from tests.tables import made_data

TEST = made_data(40, 91)[0]


@pytest.fixture
def site(tmp_path):
    """Three participants with files and states of their own, after two rounds; and those that were there."""

    def played(method, public=None):
        models = {"p0": '"tests.flower.things:cnn"', "p1": '"tests.flower.things:cnn"'}
        Site(tmp_path, '"Local"', models)
        clients = {}
        for name in models:
            settings = read_participant(tmp_path / f"{name}.toml")
            state = tmp_path / f"state-{name}"
            state.mkdir()
            note_site(state, tmp_path / f"{name}.toml", "example.org:8443 abc")
            clients[name] = Client(settings.build(), CPU, state, agreed)
        served(FakeGrid(clients.values()), method, list(models), public=public).run(2)
        return tmp_path, {name: client.participant for name, client in clients.items()}

    return played


@pytest.mark.parametrize(("method", "public"), [(FedProto(), None), (CoFED(update_batch_size=16), PUBLIC)])
def test_a_participant_answers_as_it_did(method, public, site):
    folder, people = site(method, public)
    state = folder / "state-p1"
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    found, provenance = participant_of(state, None, None)
    assert (found.name, found.round) == ("p1", 2)
    np.testing.assert_array_equal(found.predict_proba(TEST), people["p1"].predict_proba(TEST))
    assert provenance == {"federation": "0123456789abcdef", "server": "example.org:8443 abc", "potluck there": "0"}
    assert {path: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before
    again, _ = participant_of(state / "0123456789abcdef", "p1", folder / "p1.toml")
    np.testing.assert_array_equal(again.predict_proba(TEST), people["p1"].predict_proba(TEST))


def test_data_that_have_grown_change_nothing(site, caplog):
    folder, people = site(FedProto())
    file = folder / "p0.toml"
    file.write_text(file.read_text().replace("rows = 20", "rows = 30"))
    found, _ = participant_of(folder / "state-p0", None, None)
    np.testing.assert_array_equal(found.predict_proba(TEST), people["p0"].predict_proba(TEST))
    assert "p0's training data are not those that it learned from" in caplog.text


def test_another_model_is_told(site):
    folder, _ = site(FedProto())
    file = folder / "p0.toml"
    file.write_text(file.read_text().replace("things:cnn", "things:mlp"))
    with pytest.raises(CheckpointError, match="participant differ"):
        participant_of(folder / "state-p0", None, None)


def test_what_is_missing_or_another_is_told(site, tmp_path):
    folder, _ = site(FedProto())
    state = folder / "state-p0"
    with pytest.raises(SettingsError, match="is 'p0''s; expected --participant p0"):
        participant_of(state, "p1", None)
    (folder / "p0.toml").rename(folder / "moved.toml")
    with pytest.raises(SettingsError, match=r"p0.toml is not there any more; say where it is with --file"):
        participant_of(state, None, None)
    assert participant_of(state, None, folder / "moved.toml")[0].name == "p0"
    shutil.rmtree(state / "0123456789abcdef" / "states")
    with pytest.raises(DataError, match="holds no whole state yet"):
        participant_of(state, None, folder / "moved.toml")
    (state / "0123456789abcdef" / "invitation.json").write_text(json.dumps({}))
    with pytest.raises(DataError, match=r"invitation.json cannot be read"):
        participant_of(state, None, folder / "moved.toml")
    (state / "participant.json").unlink()
    with pytest.raises(DataError, match=r"`potluck join` writes it"):
        participant_of(state, None, None)
    (folder / "empty").mkdir()
    with pytest.raises(SettingsError, match="neither a run folder nor a participant's state folder"):
        participant_of(folder / "empty", None, None)
