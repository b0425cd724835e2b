"""Both sides note a message in the same way, and none of its values."""

from __future__ import annotations

import torch

from potluck.channel.audit_log import AuditLog, read, unmatched
from potluck.core.payload import Payload
from potluck.flower.message_notes import note_message, terms_of
from potluck.methods import FedAvg, Local
from tests.flower.fakes import client_of, invitation, over_flower, people


def test_a_message_is_noted_by_its_place_and_its_checksum(tmp_path):
    log = AuditLog(tmp_path / "a.jsonl", "p0")
    body = Payload({"w": torch.full((2,), 98765.0)}).to_bytes()
    head = {
        "kind": "end",
        "phase": "round",
        "round": 1,
        "step": 1,
        "metrics": {"accuracy": 0.62512345},
        "notes": {"n": 4343434343},
    }
    note_message(log, "sent", "p0", invitation(FedAvg()), head, body)
    note_message(log, "received", "p0", None, {"kind": "advance", "round": 1}, b"nonsense")
    first, second = read(tmp_path / "a.jsonl")
    assert (first["kind"], first["round"], first["bytes"], first["holds"]) == ("end", 1, len(body), {"w": ["F32", 2]})
    assert first["metrics"] == ["accuracy"]
    assert second["holds"] == {"…": ["it cannot be read"]}
    text = (tmp_path / "a.jsonl").read_text()
    assert not any(value in text for value in ("98765", "0.62512345", "4343434343"))


def test_both_sides_logs_of_a_run_agree(tmp_path):
    own = people(FedAvg())
    federation, grid = over_flower(FedAvg(), tmp_path, people=own)
    gateway = federation.engine.gateway
    gateway._audit_log = AuditLog(tmp_path / "server.jsonl", "the server")
    client = grid.clients[100]
    client._audit_log = AuditLog(tmp_path / "p0.jsonl", "p0")
    federation.run(2)
    server, ours = list(read(tmp_path / "server.jsonl")), list(read(tmp_path / "p0.jsonl"))
    assert unmatched(server, ours) == ([], [])
    assert [entry["exchange"] for entry in ours if "exchange" in entry] == ["greet", "start", "weights", "weights"]
    assert len({entry["terms"] for entry in (*server, *ours)}) == 1, "by which terms, at both sides"
    assert len([entry for entry in server if entry.get("payload") and entry["participant"] == "p0"]) == 8


def test_an_agreement_is_noted_with_its_terms(tmp_path):
    client = client_of(people(Local())[0], tmp_path, audit_log=AuditLog(tmp_path / "p0.jsonl", "p0"))
    for _ in range(2):
        client.answer(invitation(Local()).message())
    entries = list(read(tmp_path / "p0.jsonl"))
    assert [entry["what"] for entry in entries] == ["received", "agreed", "sent", "received", "sent"]
    assert {entry["terms"] for entry in entries} == {terms_of(invitation(Local()).model_dump(mode="json"))}


def test_each_line_says_by_which_terms(tmp_path):
    """Whoever is told that work was asked for by other terms than it agreed to sees it in the comparison."""
    logs = {name: AuditLog(tmp_path / f"{name}.jsonl", name) for name in ("server", "p0")}
    body = Payload({"w": torch.zeros(2)}).to_bytes()
    note_message(logs["server"], "sent", "p0", invitation(FedAvg(), rounds=9), {"kind": "advance"}, body)
    note_message(logs["p0"], "received", "p0", invitation(FedAvg(), rounds=8), {"kind": "advance"}, body)
    server, ours = (list(read(tmp_path / f"{name}.jsonl")) for name in logs)
    assert [len(each) for each in unmatched(server, ours)] == [1, 1]
    offered = invitation(FedAvg(), rounds=7)
    note_message(logs["p0"], "received", "p0", invitation(FedAvg()), offered.model_dump(mode="json"))
    assert list(read(tmp_path / "p0.jsonl"))[1]["terms"] == terms_of(offered.model_dump(mode="json"))
