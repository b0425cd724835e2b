"""Folders of keys: made, added to, renewed, listed, and keys that are not let in any more."""

from __future__ import annotations

import stat

import pytest

from potluck.core.errors import SettingsError
from potluck.flower.certificates import fingerprint, fingerprint_of, public_half, read_certificate
from potluck.flower.key_folder import (
    REVOKED,
    RevokedKeys,
    add_key,
    entries,
    make_keys,
    renew_certificates,
    renew_key,
    revoke,
    revoked_in,
)


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    make_keys(folder, ["ann", "bob"], ["example.org", "localhost", "127.0.0.1"], 30)
    return folder


def test_secrets_are_their_owners_alone(keys):
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    for path in keys.iterdir():
        secret = path.name in ("ca.key", "server.key", "ann", "bob")
        assert (stat.S_IMODE(path.stat().st_mode) == 0o600) == secret, path.name


def test_what_is_there_stays_and_nothing_is_written(keys):
    before = (keys / "ann").read_bytes()
    with pytest.raises(SettingsError, match="is there already and stays as it is; choose another folder"):
        make_keys(keys, ["ann", "carl"], ["localhost"], 1)
    assert (keys / "ann").read_bytes() == before
    assert not (keys / "carl").exists()


@pytest.mark.parametrize("names", [["../ann"], [".ann"], [" "], ["ann", "ann"], ["ca"], ["ann", "server"]])
def test_names_that_cannot_be_files_are_refused(names, tmp_path):
    with pytest.raises(SettingsError):
        make_keys(tmp_path / "keys", names, ["localhost"], 1)
    assert not (tmp_path / "keys").exists()


def test_a_participant_is_added_with_a_key_or_with_a_half_from_elsewhere(keys, tmp_path):
    assert set(add_key(keys, "carl")) == {keys / "carl", keys / "carl.pub"}
    add_key(tmp_path / "site", "dora")
    add_key(keys, "dora", tmp_path / "site" / "dora.pub")
    assert (keys / "dora.pub").read_bytes() == (tmp_path / "site" / "dora.pub").read_bytes()
    assert not (keys / "dora").exists()
    with pytest.raises(SettingsError, match="`potluck keys renew carl` makes another one"):
        add_key(keys, "carl")
    with pytest.raises(SettingsError, match="is no public key"):
        add_key(keys, "emil", keys / "carl")
    with pytest.raises(SettingsError, match="is no public key"):
        add_key(keys, "emil", tmp_path / "nowhere.pub")


def test_certificates_are_renewed_for_the_same_hosts_by_the_same_authority(keys):
    before = read_certificate(keys / "ca.crt"), read_certificate(keys / "server.pem")
    assert set(renew_certificates(keys, [], 20)) == {keys / "server.pem"}
    server = read_certificate(keys / "server.pem")
    server.verify_directly_issued_by(before[0])
    assert server.serial_number != before[1].serial_number
    assert set(renew_certificates(keys, ["new.org"], 60)) == {keys / "ca.crt", keys / "server.pem"}
    authority, server = read_certificate(keys / "ca.crt"), read_certificate(keys / "server.pem")
    server.verify_directly_issued_by(before[0])  # so that sites with the old certificate go on
    server.verify_directly_issued_by(authority)
    (keys / "ca.key").unlink()
    with pytest.raises(SettingsError, match=r"ca.key is not there.*own authority"):
        renew_certificates(keys, [], 20)


def test_a_renewed_key_takes_the_place_of_one_that_is_revoked(keys):
    old = fingerprint(str(keys / "ann"))
    renew_key(keys, "ann")
    assert fingerprint(str(keys / "ann")) != old
    assert set(revoked_in(keys)) == {old}
    assert len(list(keys.glob("ann.pub.*"))) == 1
    with pytest.raises(SettingsError, match="no participant 'anne'"):
        renew_key(keys, "anne")


def test_everything_is_listed_with_dates_and_fingerprints(keys, tmp_path):
    add_key(tmp_path / "site", "carl")
    add_key(keys, "carl", tmp_path / "site" / "carl.pub")
    revoke(keys, "bob")
    found = {entry.name: entry for entry in entries(keys)}
    assert list(found) == ["ca", "server", "ann", "bob", "carl"]
    assert 29 < found["server"].days < 30
    assert found["server"].note == "for example.org, localhost, 127.0.0.1"
    assert found["ann"].fingerprint == fingerprint(str(keys / "ann"))
    assert found["ann"].until == ""
    assert found["bob"].note.startswith("revoked on 20")
    assert found["carl"].note == "its secret is elsewhere"
    with pytest.raises(SettingsError, match="There is no folder"):
        entries(tmp_path / "nowhere")


def test_a_revoked_key_is_known_as_soon_as_the_list_says_so(keys):
    ann, bob = (fingerprint_of(public_half(str(keys / f"{name}.pub"))) for name in ("ann", "bob"))
    said = []
    revoked = RevokedKeys([keys, keys], said.append)
    assert ann not in revoked
    assert revoke(keys, "ann") == ann
    assert ann in revoked
    assert bob not in revoked
    revoke(keys, "ann")
    revoke(keys, "bob")
    assert bob in revoked
    (keys / REVOKED).write_text("damaged")
    assert ann in revoked, "what was known still counts"
    assert bob in revoked
    assert len(said) == 1
    assert "cannot be read" in said[0]
