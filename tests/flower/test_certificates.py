"""Certificates and keys for a trial: what they prove, and who may read them."""

from __future__ import annotations

import ipaddress
import stat

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from potluck.core.errors import SettingsError
from potluck.flower.certificates import check_seal, fingerprint, fingerprint_of, make_keys, sealing
from potluck.flower.config import public_key


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


def test_keys_of_either_kind_sign_and_are_compared_by_their_fingerprints(keys, tmp_path):
    checksum = "ab" * 32
    rsa_key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.PKCS8
    pem = rsa_key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (tmp_path / "rsa.key").write_bytes(pem)
    ssh = rsa_key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (tmp_path / "rsa.pub").write_bytes(ssh)
    pairs = [(keys / "ann", keys / "ann.pub"), (keys / "server.key", keys / "server.pem")]
    for secret, public in [*pairs, (tmp_path / "rsa.key", tmp_path / "rsa.pub")]:
        seal = sealing(str(secret))(bytes.fromhex(checksum))
        assert check_seal(str(public), checksum, seal)
        assert not check_seal(str(public), "cd" * 32, seal)
        assert not check_seal(str(public), checksum, "nonsense")
        assert not check_seal(str(keys / "bob.pub"), checksum, seal)
    assert fingerprint(str(keys / "ann")) == fingerprint_of(public_key(str(keys / "ann.pub")))
    assert fingerprint(str(keys / "ann")) != fingerprint(str(keys / "bob"))
    for wrong in (keys / "ann.pub", keys / "ca.crt"):
        with pytest.raises(SettingsError, match="is no private key"):
            sealing(str(wrong))
    with pytest.raises(SettingsError, match="is no public key"):
        check_seal(str(keys / "ann"), checksum, "")
