"""`potluck keys`: what it writes and refuses."""

from __future__ import annotations

import os
import stat

import pytest
from cryptography import x509

from tests.cli.commands import potluck

pytestmark = pytest.mark.usefixtures("here")


def test_keys_makes_certificates_and_keys_and_says_what_to_use_in_production(tmp_path):
    said = potluck("keys", "clinic", "bank", "--host", "potluck.example.org", "--days", 3).output
    assert "In production let your own authority sign" in said
    made = {path.name for path in (tmp_path / "keys").iterdir()}
    assert made == {"ca.crt", "ca.key", "server.pem", "server.key", "clinic", "clinic.pub", "bank", "bank.pub"}
    for name in ("ca.key", "server.key", "clinic", "bank"):
        assert stat.S_IMODE(os.stat(tmp_path / "keys" / name).st_mode) == 0o600
    authority = x509.load_pem_x509_certificate((tmp_path / "keys" / "ca.crt").read_bytes())
    server = x509.load_pem_x509_certificate((tmp_path / "keys" / "server.pem").read_bytes())
    server.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["potluck.example.org", "localhost"]
    assert (server.not_valid_after_utc - server.not_valid_before_utc).days == 3


def test_keys_overwrites_nothing(tmp_path):
    potluck("keys", "clinic")
    before = (tmp_path / "keys" / "clinic").read_bytes()
    assert "is there already" in potluck("keys", "clinic", fails=2).output
    assert (tmp_path / "keys" / "clinic").read_bytes() == before


@pytest.mark.parametrize("names", [["../clinic"], ["server"], ["clinic", "clinic"], [".hidden"]])
def test_keys_refuses_names_that_cannot_be_files(names):
    potluck("keys", *names, fails=2)
