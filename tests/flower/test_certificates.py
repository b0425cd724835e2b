"""Certificates and keys for a trial: what they prove, and who may read them."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from potluck.core.errors import SettingsError
from potluck.flower.certificates import (
    check_seal,
    date_of,
    days_left,
    fingerprint,
    fingerprint_of,
    hosts_of,
    new_authority,
    new_key,
    public_pem,
    read_certificate,
    sealing,
    signed_by,
    warn_of_end,
)
from potluck.flower.key_folder import make_keys


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
    assert fingerprint(str(keys / "ann")) == fingerprint_of(public_pem(str(keys / "ann.pub")))
    assert fingerprint(str(keys / "ann")) != fingerprint(str(keys / "bob"))
    for wrong in (keys / "ann.pub", keys / "ca.crt"):
        with pytest.raises(SettingsError, match="is no private key"):
            sealing(str(wrong))
    with pytest.raises(SettingsError, match="is no public key"):
        check_seal(str(keys / "ann"), checksum, "")


def test_what_a_key_signed_is_told_from_what_it_did_not(keys):
    public, message = public_pem(str(keys / "ann.pub")), b"who is there"
    seal = sealing(str(keys / "ann"))(message)
    assert signed_by(public, message, seal)
    assert not signed_by(public, b"another", seal)
    assert not signed_by(public_pem(str(keys / "bob.pub")), message, seal)
    for wrong in ("", "nonsense", "é"):
        assert not signed_by(public, message, wrong)
    assert not signed_by(b"no key", message, seal)


def test_the_end_of_a_certificate_is_warned_of(keys):
    server = read_certificate(keys / "server.pem")
    assert 6.9 < days_left(server) < 7
    assert hosts_of(server) == ["example.org", "127.0.0.1"]
    assert warn_of_end("It", server, days=5) is None
    assert (
        warn_of_end("It", server) == f"It ends on {date_of(server)}, in 7 days; `potluck keys renew` makes another one."
    )
    ended = new_authority(new_key(), 0)
    assert warn_of_end("It", ended) == f"It ended on {date_of(ended)}; `potluck keys renew` makes another one."
    with pytest.raises(SettingsError, match="holds no certificate"):
        read_certificate(keys / "ann")
