"""`potluck join`: what it asks the owner and refuses. Federations are in tests/integration/flower."""

from __future__ import annotations

import sys

import pytest

from potluck.cli.console import messages
from potluck.cli.join import how_it_ended, owner
from potluck.flower.consent import Consent
from potluck.flower.processes import free_port
from potluck.flower.protocol import Finished
from potluck.methods import CoFED, FedAvg
from tests.cli.commands import potluck
from tests.flower.fakes import invitation

pytestmark = pytest.mark.usefixtures("here")


def test_join_wants_an_address(tmp_path):
    things = "tests.flower.things"
    (tmp_path / "a.toml").write_text(f'name = "a"\nmodel = "mlp"\ndata = {{ name = "{things}:data", seed = 0 }}\n')
    assert "expected HOST:PORT" in potluck("join", "a.toml", "--server", "somewhere", fails=2).output


FILE = 'name = "a"\nmodel = "mlp"\ndata = { name = "tests.flower.things:data", seed = 0 }\n'


def test_a_check_ticks_what_is_fine_and_exits_with_2_for_what_is_not(tmp_path):
    (tmp_path / "a.toml").write_text(FILE)
    said = potluck("join", "a.toml", "--check").stdout
    assert "✓ data: 24 samples" in said
    assert "! test data: there are none" in said
    assert "! server: not looked at" in said
    said = potluck("join", "a.toml", "--check", "--server", f"127.0.0.1:{free_port()}", fails=2).stdout
    assert "✗ server: Nobody listens at" in said
    assert not (tmp_path / "state").exists()


def test_mistakes_in_the_address_are_told_at_once(tmp_path):
    (tmp_path / "a.toml").write_text(FILE)
    assert "There is no --server" in potluck("join", "a.toml", fails=2).stderr
    assert "without https://" in potluck("join", "a.toml", "--server", "https://x:1", fails=2).stderr
    assert "There is no host" in potluck("join", "a.toml", "--server", "nowhere.invalid:1", fails=2).stderr
    assert not (tmp_path / "state").exists()


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


@pytest.mark.parametrize(
    ("farewell", "ending", "told"),
    [
        (Finished(rounds=3), "told", "The federation has ended after 3 rounds."),
        (
            Finished(rounds=2, outcome="stopped", reason="those who run it stopped it"),
            "told",
            "The federation was stopped after 2 rounds (those who run it stopped it).",
        ),
        (Finished(rounds=0, outcome="failed"), "told", "The federation failed after 0 rounds."),
        (None, "missed", "all rounds are over here, and the server has gone without a word."),
        (None, "silent", "The server has not answered for 2 h."),
    ],
)
def test_whoever_took_part_reads_how_it_ended(farewell, ending, told):
    assert how_it_ended(farewell, ending, 7200.0).endswith(told)
