"""Certificates and keys for a trial: what they prove, and who may read them."""

from __future__ import annotations

import ipaddress
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from potluck.core.errors import SettingsError
from potluck.flower.certificates import make_keys


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "new"
    make_keys(folder, ["ann", "bob"], ["example.org", "127.0.0.1", "example.org"], 7)
    return folder


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_servers_certificate_is_the_authoritys_for_the_names_and_addresses(keys):
    server, authority = certificate(keys / "server.pem"), certificate(keys / "ca.crt")
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["example.org"], "each once"
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]
    assert list(server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH
    ]
    assert not server.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert (server.not_valid_after_utc - server.not_valid_before_utc).days == 7


def test_each_public_half_belongs_to_its_secret_and_to_no_other(keys):
    halves = []
    for name in ("ann", "bob"):
        secret = serialization.load_ssh_private_key((keys / name).read_bytes(), None)
        public = serialization.load_ssh_public_key((keys / f"{name}.pub").read_bytes())
        assert secret.public_key() == public
        halves.append(public)
    assert halves[0] != halves[1]


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
