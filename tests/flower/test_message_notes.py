"""Both sides note a message in the same way, and none of its values."""

from __future__ import annotations

import torch

from potluck.channel.audit_log import AuditLog, read, unmatched
from potluck.core.payload import Payload
from potluck.flower.message_notes import note_message
from potluck.methods import FedAvg
from tests.flower.fakes import over_flower, people


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
    note_message(log, "sent", "p0", "f", head, body)
    note_message(log, "received", "p0", "f", {"kind": "advance", "round": 1}, b"nonsense")
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
    assert len([entry for entry in server if entry.get("payload") and entry["participant"] == "p0"]) == 8
