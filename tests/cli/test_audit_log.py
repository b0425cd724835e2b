"""`potluck audit-log`: a table, a check, and a comparison of two sides."""

from __future__ import annotations

import json

import pytest

from potluck.channel.audit_log import AuditLog
from potluck.flower.certificates import sealing
from potluck.flower.key_folder import make_keys
from tests.cli.commands import potluck

pytestmark = pytest.mark.usefixtures("here")

PLACE = {"federation": "f", "participant": "p0", "kind": "exchange", "phase": "round", "round": 1, "step": 1}


def log(path, *payloads, what="sent", **settings):
    written = AuditLog(path, "p0", **settings)
    for payload in payloads:
        written.note(what, **PLACE, payload=payload, bytes=2000, holds={"w": ["F32", 2]})
    written.note("refused", participant="p0", why="it \x1b[2J asks for [red]more[/red]\nsent nothing")


def test_it_shows_what_left_and_harms_no_terminal(here):
    log(here / "a.jsonl", "x" * 64)
    shown = potluck("audit-log", "a.jsonl").output
    assert "exchange round 1 1" in shown
    assert "w ['F32', 2]" in shown
    assert "\x1b" not in shown
    assert "[red]more" in shown.replace("\n", "")
    assert "2 lines of a.jsonl: the chain is whole." in shown
    assert "\nsent nothing" not in shown, "a reason cannot pass for a line of its own"


def test_a_changed_line_is_an_error(here):
    log(here / "a.jsonl", "x" * 64)
    lines = (here / "a.jsonl").read_text().splitlines()
    (here / "a.jsonl").write_text("\n".join([json.dumps({**json.loads(lines[0]), "bytes": 1}), lines[1]]) + "\n")
    assert "line 1 is not what was written" in potluck("audit-log", "a.jsonl", "--verify", fails=2).output
    assert "There is no file" in potluck("audit-log", "none.jsonl", fails=2).output


def test_two_sides_are_compared(here):
    log(here / "a.jsonl", "x" * 64)
    log(here / "b.jsonl", "x" * 64, what="received")
    assert "Both logs hold the same payloads." in potluck("audit-log", "a.jsonl", "b.jsonl", "--verify").output
    log(here / "c.jsonl", "x" * 64, "y" * 64, what="received")
    shown = potluck("audit-log", "a.jsonl", "c.jsonl", "--verify", fails=2).output
    assert "Only c.jsonl knows: line 2, received p0 exchange round 1 1 yyyy" in shown


def test_seals_are_checked(here):
    make_keys(here / "keys", ["p0", "p1"], ["localhost"], 1)
    log(here / "server.jsonl", "x" * 64, seal=sealing(str(here / "keys" / "server.key")))
    certificate = str(here / "keys" / "server.pem")
    assert "and each is sealed" in potluck("audit-log", "server.jsonl", "--verify", "--key", certificate).output
    log(here / "a.jsonl", "x" * 64, seal=sealing(str(here / "keys" / "p0")))
    key = str(here / "keys" / "p0.pub")
    assert "and each is sealed" in potluck("audit-log", "a.jsonl", "--verify", "--key", key).output
    other = str(here / "keys" / "p1.pub")
    assert "line 1 is not sealed" in potluck("audit-log", "a.jsonl", "--verify", "--key", other, fails=2).output
