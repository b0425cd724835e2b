"""The two kinds of file of a real federation, as `potluck new` writes them."""

from __future__ import annotations

import tomllib

import pytest

from potluck.cli.site_files import server_text, site_file, site_text
from potluck.core.errors import SettingsError
from potluck.flower.config import read_federation, read_participant
from potluck.flower.key_folder import make_keys
from potluck.methods import METHODS
from tests.export.models import patients


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize("method", ["FedAvg", "cofed"])
def test_a_servers_file_can_be_read_with_what_it_names(method, tls, tmp_path):
    make_keys(tmp_path / "keys", ["ann", "bob"], ["localhost"], 1)
    patients().to_csv(tmp_path / "public.csv", index=False)
    path = tmp_path / "server.toml"
    path.write_text(server_text(method, ["ann", "bob"], tls, None, "state"))
    file = read_federation(path)
    assert file.names == ["ann", "bob"]
    assert (file.tls is not None) == tls
    assert (file.public is not None) == (method == "cofed")
    assert max(map(len, path.read_text().splitlines())) <= 105


@pytest.mark.parametrize("tls", [True, False])
def test_a_sites_file_can_be_read_with_what_it_names(tls, tmp_path):
    make_keys(tmp_path / "keys", ["ann"], ["localhost"], 1)
    patients().drop(columns="ward").to_csv(tmp_path / "ann.csv", index=False)
    path = tmp_path / site_file("ann")
    path.write_text(site_text("ann", "sklearn.tree:DecisionTreeClassifier", None, "ann.csv", "state", tls))
    settings = read_participant(path)
    assert len(settings.build().data) == 60
    assert (settings.key is not None) == tls
    assert settings.test is not None
    assert max(map(len, path.read_text().splitlines())) <= 105


def test_there_is_a_file_for_each_method(tmp_path):
    """With public data where it needs them, and labels where it needs these."""
    patients().to_csv(tmp_path / "public.csv", index=False)
    for name in METHODS:
        (tmp_path / "server.toml").write_text(server_text(name, ["ann", "bob"], False, None, "state"))
        file = read_federation(tmp_path / "server.toml")
        needed = file.build_method().requires().public
        assert (file.public is not None) == (needed != "nothing"), name
        assert file.public is None or file.public.labelled == (needed == "labels"), name


def test_data_that_are_no_table_have_no_column_of_labels():
    assert tomllib.loads(site_text("ann", "mlp", "mine:load", "test.npz", "y", False)) | {"plan": 0} == {
        "name": "ann",
        "model": "mlp",
        "data": "mine:load",
        "test": "test.npz",
        "plan": 0,
        "state_dir": "state-ann",
    }


def test_names_stand_in_the_text_as_they_are(tmp_path):
    text = site_text("ann", "mlp", 'odd "name".csv', None, "a\\b", False)
    assert tomllib.loads(text)["data"] == {"name": 'odd "name".csv', "target": "a\\b"}
    assert "test" not in tomllib.loads(text)


@pytest.mark.parametrize("name", ["", "../a", "a b", ".a", 'a"b'])
def test_names_that_cannot_be_files_are_refused(name):
    with pytest.raises(SettingsError, match="A site's name is"):
        site_file(name)


def test_a_method_that_nobody_knows():
    with pytest.raises(SettingsError, match="Did you mean 'FedAvg'"):
        server_text("FedAgv", ["a"], True, None, "y")
