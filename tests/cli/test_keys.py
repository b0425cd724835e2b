"""`potluck keys`: what it writes, lists, revokes and refuses."""

from __future__ import annotations

import json
import os
import stat

import pytest
from cryptography import x509

from tests.cli.commands import potluck

pytestmark = pytest.mark.usefixtures("here")


def test_init_makes_certificates_and_keys_and_says_what_to_use_in_production(tmp_path):
    said = potluck("keys", "init", "clinic", "bank", "--host", "potluck.example.org", "--days", 3).output
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


def test_nothing_is_overwritten(tmp_path):
    potluck("keys", "init", "clinic")
    before = (tmp_path / "keys" / "clinic").read_bytes()
    assert "is there already" in potluck("keys", "init", "clinic", fails=2).output
    assert "potluck keys renew clinic" in potluck("keys", "add", "clinic", fails=2).output
    assert (tmp_path / "keys" / "clinic").read_bytes() == before


@pytest.mark.parametrize("names", [["../clinic"], ["server"], ["clinic", "clinic"], [".hidden"]])
def test_names_that_cannot_be_files_are_refused(names):
    potluck("keys", "init", *names, fails=2)


@pytest.mark.parametrize("old", [["clinic", "bank"], ["clinic", "--host", "a.org"], ["--host", "a.org", "clinic"]])
def test_the_old_form_names_the_new_one(old, tmp_path):
    said = potluck("keys", *old, fails=2).stderr
    assert f"potluck keys init {' '.join(old)}" in said
    assert not (tmp_path / "keys").exists()


def test_from_adding_to_revoking(tmp_path):
    potluck("keys", "init", "clinic", "--days", 100)
    potluck("keys", "add", "bank", "--out", "elsewhere")
    assert "made elsewhere" in potluck("keys", "add", "bank", "--public", "elsewhere/bank.pub").stdout
    assert "is refused from its next message on" in potluck("keys", "revoke", "bank").stdout
    (about,) = json.loads((tmp_path / "keys" / "revoked.json").read_text()).values()
    assert about["name"] == "bank"
    said = potluck("keys", "list").stdout
    assert "revoked" in said
    assert "within 14 days" not in said
    before = (tmp_path / "keys" / "server.pem").read_bytes()
    assert "serve … --resume" in potluck("keys", "renew", "--days", 5).stdout
    assert (tmp_path / "keys" / "server.pem").read_bytes() != before
    assert "within 14 days" in potluck("keys", "list").stdout
    assert "clinic's secret" in potluck("keys", "renew", "clinic").stdout
    assert "--host is for the server" in potluck("keys", "renew", "clinic", "--host", "x", fails=2).stderr
    assert "Did you mean 'clinic'" in potluck("keys", "revoke", "clinc", fails=2).stderr
