"""`potluck keys`, `serve` and `join`: what they write, ask and refuse. Federations: tests/integration/flower."""

from __future__ import annotations

import os
import stat
import sys

import pytest
from cryptography import x509

from potluck.cli.console import messages
from potluck.cli.join import owner
from potluck.flower.consent import Consent
from potluck.methods import CoFED, FedAvg
from tests.cli.commands import potluck
from tests.flower.fakes import invitation


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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


def test_serve_does_not_overwrite_a_run(tmp_path):
    (tmp_path / "federation.toml").write_text('rounds = 1\nmethod = "Local"\n[[participants]]\nname = "a"\n')
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text("{}")
    said = potluck("serve", "federation.toml", "--out", "run", fails=2).output
    assert "already holds a run. Go on with --resume" in said


def test_a_file_that_is_not_there_is_an_error():
    assert "There is no file" in potluck("serve", "nowhere.toml", fails=2).output
    assert "There is no file" in potluck("join", "nowhere.toml", "--server", "x:1", fails=2).output


def test_join_wants_an_address(tmp_path):
    things = "tests.flower.things"
    (tmp_path / "a.toml").write_text(f'name = "a"\nmodel = "mlp"\ndata = {{ name = "{things}:data", seed = 0 }}\n')
    assert "expected HOST:PORT" in potluck("join", "a.toml", "--server", "somewhere", fails=2).output


def test_nobody_agrees_where_nobody_can_be_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    consent = Consent(tmp_path / "consent.json", owner(messages(), yes=False), own_public=False)
    refused = consent(invitation(CoFED()), CoFED)
    assert refused is not None
    assert "nobody is there to be asked" in refused
    assert "for each public sample the label" in capsys.readouterr().err


def test_the_owner_is_asked_and_the_answer_remembered(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: asked.append(1) or len(asked) > 1)
    consent = Consent(tmp_path / "consent.json", owner(messages(), yes=False), own_public=False)
    assert consent(invitation(CoFED()), CoFED) == "its owner did not agree"
    assert consent(invitation(CoFED()), CoFED) is None
    assert (
        Consent(tmp_path / "consent.json", owner(messages(), yes=False), own_public=False)(invitation(CoFED()), CoFED)
        is None
    )
    assert len(asked) == 2
    consent(invitation(FedAvg()), FedAvg)  # other terms
    assert len(asked) == 3
