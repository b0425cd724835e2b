"""The audit log: a chain that shows what was changed, and holds no value of anybody's."""

from __future__ import annotations

import json
import stat
import tracemalloc

import pytest
import torch

from potluck.channel.audit_log import AuditLog, AuditLogError, outline, read, unmatched
from potluck.core.errors import PayloadError
from potluck.core.payload import Payload


def written(path, count=4, who="p0"):
    log = AuditLog(path, who)
    for number in range(count):
        log.note("sent", round=number, why=None)
    return path


def test_lines_follow_each_other_also_after_a_restart(tmp_path):
    path = written(tmp_path / "audit.jsonl", 2)
    AuditLog(path, "p0").note("refused", why="it asks too much")
    entries = list(read(path))
    assert [entry["number"] for entry in entries] == [1, 2, 3]
    assert [entry["what"] for entry in entries] == ["sent", "sent", "refused"]
    assert entries[0]["before"] == "0" * 64
    assert "why" not in entries[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda lines: [lines[0], lines[1].replace('"round": 1', '"round": 7'), *lines[2:]], 2),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3),
        (lambda lines: lines[1:], 1),
        (lambda lines: [*lines, "{}"], 5),
        (lambda lines: [*lines, "[" * 10_000], 5),
        (lambda lines: [*lines[:3], lines[3][:40]], 4),
    ],
)
def test_what_was_changed_is_found(change, line, tmp_path):
    path = written(tmp_path / "audit.jsonl")
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")
    with pytest.raises(AuditLogError, match=f"line {line} is not what was written"):
        list(read(path))
    with pytest.raises(AuditLogError):
        AuditLog(path, "p0")


def test_a_line_that_was_being_written_when_the_machine_went_down_is_taken_away_and_noted(tmp_path):
    path = written(tmp_path / "audit.jsonl", 2)
    path.write_bytes(path.read_bytes() + b'{"number": 3, "wha')
    AuditLog(path, "p0").note("sent")
    entries = list(read(path))
    assert [entry["what"] for entry in entries] == ["sent", "sent", "cut off", "sent"]
    assert entries[2]["bytes"] == 18


def test_each_line_is_sealed_where_there_is_a_key(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl", "p0", lambda digest: digest.hex()[:8])
    log.note("sent")
    entry = next(read(tmp_path / "audit.jsonl"))
    assert entry["seal"] == entry["sha256"][:8]


def test_an_outline_has_names_and_shapes_and_no_values():
    payload = Payload({"w": torch.full((2, 3), 12345.0), "n": torch.tensor(7)}, {"samples": 54321})
    found = outline(payload.to_bytes())
    assert found == {"w": ["F32", 2, 3], "n": ["I64"], "fact samples": []}
    assert "12345" not in json.dumps(found)
    assert "54321" not in json.dumps(found)
    assert outline(b"") is None
    many = outline(Payload({f"t{n}": torch.zeros(1) for n in range(60)}).to_bytes())
    assert len(many) == 51
    assert many["…"] == ["10 more"]


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":[' + b"[],[],{}," * 700_000 + b"0]}",
        b'{"a":{"dtype":"' + b"F" * 100_000 + b'","shape":[2],"data_offsets":[0,8]}}',
        b'{"a":{"dtype":"F32","shape":[' + b"1," * 100_000 + b'1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":["x"],"data_offsets":[0,4]}}',
    ],
)
def test_an_outline_of_what_is_no_payload_is_refused_before_anything_large_is_made_of_it(header):
    body = len(header).to_bytes(8, "little") + header
    tracemalloc.start()
    with pytest.raises((ValueError, PayloadError)):
        outline(body)
    assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    tracemalloc.stop()


def test_an_outline_is_short_whatever_the_names():
    names = ["é" * 5000, *(f"{'x' * 300}{n}" for n in range(500))]
    found = outline(Payload({names[0]: torch.zeros(1)}, dict.fromkeys(names, 0)).to_bytes())
    assert len(json.dumps(found)) < 20_000
    assert found["…"] == ["451 more"]


def test_two_sides_logs_of_one_run_are_compared():
    def entry(what, step, payload, participant="a", federation="f"):
        place = {"federation": federation, "participant": participant, "phase": "round", "round": 1, "step": step}
        return {"what": what, **place, "payload": payload}

    server = [entry("sent", 1, "x"), entry("received", 1, "y"), entry("sent", 1, "q", "b")]
    ours = [entry("received", 1, "x"), entry("sent", 1, "y"), entry("sent", 2, "z"), entry("sent", 3, None)]
    only_server, only_ours = unmatched(server, ours)
    assert only_server == [], "the other participant's messages are not ours"
    assert [each["payload"] for each in only_ours] == ["z"]
